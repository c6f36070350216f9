// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/access"
)

func rbacCommand() *cobra.Command {
	o, metricsSecure := access.Options{}, false
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the service account karve runs as, and the roles it needs, as YAML",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNamespaces(o.SurgeNamespaces); err != nil {
				return fmt.Errorf("--%s %w", surgeNamespaces, err)
			}
			if err := checkTokenID(o.TokenID); err != nil {
				return fmt.Errorf("--%s %w", bootstrapTokenID, err)
			}
			objects := access.Objects(o)
			if metricsSecure {
				objects = append(objects, access.MetricsObjects(o.Namespace)...)
			}
			return access.Write(cmd.OutOrStdout(), objects...)
		},
	}
	cmd.Flags().StringVar(&o.Namespace, "namespace", metav1.NamespaceSystem, "namespace that karve runs in")
	cmd.Flags().StringVar(&o.Lease, "leader-election-name", access.DefaultLease, "name of the lease, as karve controller is told")
	cmd.Flags().StringSliceVar(&o.SurgeNamespaces, surgeNamespaces, nil, "with the roles to restart Deployments in these namespaces, comma separated, or "+access.EveryNamespace+" for all, as karve controller is told; the namespaces must exist")
	cmd.Flags().StringVar(&o.TokenID, bootstrapTokenID, "", "with a role for the secret of this bootstrap token only, as karve controller is told, rather than all secrets of kube-system")
	cmd.Flags().BoolVar(&metricsSecure, "metrics-secure", false, "with the roles for karve controller --metrics-secure: the one that it needs, and "+access.MetricsReader+", to be bound to who may read metrics")
	cmd.AddCommand(auditRBACCommand())
	return cmd
}

func auditRBACCommand() *cobra.Command {
	namespace := metav1.NamespaceSystem
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print the service account \"karve audit\" runs as, and its role, as YAML",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return access.Write(cmd.OutOrStdout(), access.AuditObjects(namespace)...)
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", namespace, "namespace that the auditor runs in")
	return cmd
}
