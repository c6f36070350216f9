// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// demoCommand tells a user who asks karve for the demo where it is. It is not listed.
func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "demo",
		Hidden:             true,
		DisableFlagParsing: true, // whatever they are, they are the demo's
		RunE: func(*cobra.Command, []string) error {
			return errors.New("the demo is a binary of its own: run karve-demo, which has the same flags (in the repository: make demo)")
		},
	}
}
