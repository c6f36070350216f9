// SPDX-License-Identifier: Apache-2.0

// Command karve provisions Kubernetes nodes.
//
// It is one binary: the controller that runs in a cluster, the agent that runs on
// its nodes, and the commands people use beside them. Here flags and environment
// become a Config, validated once, and the parts are wired together; nothing is
// decided here. The demo is cmd/karve-demo, so that an emulated cloud is not part
// of what runs in a cluster.
package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/karve-dev/karve/cmd/internal/command"
)

// version is set by the linker; a plain "go build" leaves it.
var version = "unreleased"

func main() { command.Main(rootCommand()) }

// rootCommand is the tree of everything karve can be asked to do.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "karve",
		Short: "karve carves Kubernetes nodes out of a cloud",
		Long: "karve watches pods that do not fit, decides which instance types serve them best for the\n" +
			"least money, and launches them. It speaks Karpenter's API.",
		Args: cobra.NoArgs,
	}
	root.AddCommand(controllerCommand(), demoCommand(), agentCommand(), auditCommand(), crdsCommand(), rbacCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print karve's version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "karve", version)
		},
	}
}
