// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
)

// commit names what is being measured; "unknown" outside a git checkout.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
