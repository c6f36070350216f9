// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/access"
)

func rbacCommand() *cobra.Command {
	namespace := metav1.NamespaceSystem
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Print the service account karve runs as, and the roles it needs, as YAML",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return access.YAML(cmd.OutOrStdout(), namespace)
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", namespace, "namespace that karve runs in")
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
