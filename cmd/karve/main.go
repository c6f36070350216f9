// Command karve provisions Kubernetes nodes.
//
// It is one binary: the controller that runs in a cluster, the demo that runs a
// whole cluster on this machine, and the commands people use beside them. Here
// flags and environment become a Config, validated once, and the parts are wired
// together; nothing is decided here.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker; a plain "go build" leaves it.
var version = "unreleased"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "karve: %v\n", err)
		os.Exit(1)
	}
}

// command is the tree of everything karve can be asked to do.
func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "karve",
		Short: "karve carves Kubernetes nodes out of a cloud",
		Long: "karve watches pods that do not fit, decides which machines would serve them best for the\n" +
			"least money, and buys them. It speaks Karpenter's API.",
		SilenceUsage:  true,
		SilenceErrors: true, // main prints it, once
		Args:          cobra.NoArgs,
	}
	root.AddCommand(controllerCommand(), demoCommand(), agentCommand(), crdsCommand(), rbacCommand(), versionCommand())
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
