// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientconfig "sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/karve-dev/karve/agent"
	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/controller/manager"
)

// AgentConfig is what an agent on a node is told.
type AgentConfig struct {
	NodeName     string
	IMDSEndpoint string
	LogLevel     string
}

func agentCommand() *cobra.Command {
	var c AgentConfig
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Report Azure's Scheduled Events of this node's VM to the cluster (run it as a DaemonSet)",
		Long: "agent asks the VM's metadata service for Scheduled Events once a second, and writes evictions,\n" +
			"reboots, redeployments and deletions on its Node, so that the controller moves its pods in time. It\n" +
			"works without a single setting but NODE_NAME; \"karve agent manifest\" prints all that a cluster needs.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := dieWithParent(); err != nil {
				return err
			}
			if err := fillFromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			if err := c.validate(); err != nil {
				return fmt.Errorf("the configuration is not usable:\n%w", err)
			}
			return runAgent(cmd.Context(), c)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.NodeName, "node-name", "", "name of the Node of this VM")
	flags.StringVar(&c.IMDSEndpoint, "imds-endpoint", agent.Endpoint, "address of the VM's metadata service")
	flags.StringVar(&c.LogLevel, "log-level", "info", "debug, info or error")
	cmd.AddCommand(agentManifestCommand())
	return cmd
}

func (c AgentConfig) validate() error {
	var faults []error
	if c.NodeName == "" {
		faults = append(faults, fmt.Errorf("%s is missing: whose events would the agent tell?", spelled("node-name")))
	}
	if u, err := url.Parse(c.IMDSEndpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		faults = append(faults, fmt.Errorf("%s=%q is not the address of a service (http://…)", spelled("imds-endpoint"), c.IMDSEndpoint))
	}
	return errors.Join(faults...)
}

func runAgent(ctx context.Context, c AgentConfig) error {
	log, err := openLog(LogConfig{LogLevel: c.LogLevel, LogOutputPaths: []string{"stdout"}})
	if err != nil {
		return err
	}
	ctrllog.SetLogger(log)
	cluster, err := clientconfig.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (set KUBECONFIG, or run in a pod): %w", err)
	}
	api, err := client.New(cluster, client.Options{})
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	log = log.WithName("agent")
	log.Info("starting", "version", version, "node", c.NodeName, "endpoint", c.IMDSEndpoint)
	a := &agent.Agent{Node: c.NodeName, Metadata: agent.Metadata{Endpoint: c.IMDSEndpoint, HTTP: agent.Direct()}, Client: api, Log: log, Panics: manager.ReportPanics(log)}
	a.Run(ctx)
	return nil
}

func agentManifestCommand() *cobra.Command {
	namespace, image := metav1.NamespaceSystem, ""
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Print the agent's DaemonSet, service account, roles and admission policy as YAML",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if image == "" {
				return errors.New("--image is missing: which image has karve in it?")
			}
			objects := append(access.AgentObjects(namespace), agent.DaemonSet(namespace, access.AgentName, image))
			return access.Write(cmd.OutOrStdout(), objects...)
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", namespace, "namespace that the agent runs in")
	cmd.Flags().StringVar(&image, "image", image, "image of karve")
	return cmd
}
