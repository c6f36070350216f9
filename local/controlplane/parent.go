// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
)

// parentFDVariable names the environment variable that carries the number of an
// inherited file descriptor: the read end of a pipe whose write end only the parent
// holds.
const parentFDVariable = "KARVE_PARENT_FD"

// dieWithParent ends this process when its parent has ended. The kernel closes an ended
// process's descriptors however it ended, so end-of-file on the pipe reports even a
// SIGKILL, on every Unix. An empty fd means that this is not wanted.
//
// A death signal (Linux PDEATHSIG) would not do: it fires when the thread that forked
// exits, and Go threads start and end.
func dieWithParent(fd string) error {
	if fd == "" {
		return nil
	}
	n, err := strconv.Atoi(fd)
	if err != nil || n < 3 {
		return fmt.Errorf("%s=%q is not an inherited file descriptor", parentFDVariable, fd)
	}
	// The children of this process (kubectl runs plugins) have another parent.
	if err := os.Unsetenv(parentFDVariable); err != nil {
		return fmt.Errorf("clearing %s: %w", parentFDVariable, err)
	}
	go func() {
		// The parent never writes: a read returns only at its end. There is nothing to
		// save, as a control plane's state does not outlive the run.
		_, _ = os.NewFile(uintptr(n), "parent").Read(make([]byte, 1))
		os.Exit(1)
	}()
	return nil
}
