// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/karve-dev/karve/internal/panics"
)

// parentVariable names an inherited file descriptor: the read end of a pipe whose
// write end only the parent holds.
const parentVariable = "KARVE_PARENT_FD"

// dieWithParent ends this process when its parent is gone, however it went: the
// kernel closes a dead process's descriptors even after SIGKILL. Without the variable, as
// in a Deployment, it does nothing.
func dieWithParent() error {
	value := os.Getenv(parentVariable)
	if value == "" {
		return nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd < 3 {
		return fmt.Errorf("%s=%q is not an inherited file descriptor", parentVariable, value)
	}
	(&panics.Reporter{}).Go("parent", func() {
		// The parent never writes: the read returns only at the pipe's end. karve is
		// made to be killed at any point, so there is nothing to clean up.
		_, _ = os.NewFile(uintptr(fd), "parent").Read(make([]byte, 1))
		os.Exit(1)
	})
	return nil
}
