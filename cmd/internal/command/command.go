// SPDX-License-Identifier: Apache-2.0

// Package command runs one of karve's binaries from its first line to its exit code, so that all
// of them end on the same signals and report a failure in the same form. It knows no command.
package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main runs the command. Ctrl-C and SIGTERM end its context; an error is printed, once, and ends
// the process with code 1.
func Main(root *cobra.Command) {
	root.SilenceUsage, root.SilenceErrors = true, true
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
		os.Exit(1)
	}
}
