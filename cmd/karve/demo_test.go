// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

// karve has no demo in it, and says which binary does, with any flag of the demo's.
func TestDemoIsAnotherBinary(t *testing.T) {
	for _, args := range [][]string{{"demo"}, {"demo", "--once"}, {"demo", "--help"}} {
		cmd := rootCommand()
		cmd.SetArgs(args)
		cmd.SetOut(new(bytes.Buffer))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "run karve-demo") {
			t.Errorf("karve %s: %v, want an error that names karve-demo", strings.Join(args, " "), err)
		}
	}
	cmd, help := rootCommand(), new(bytes.Buffer)
	cmd.SetArgs([]string{"--help"})
	cmd.SetOut(help)
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(help.String(), "controller") || strings.Contains(help.String(), "demo") {
		t.Errorf("karve --help (%v) lists a demo:\n%s", err, help)
	}
}
