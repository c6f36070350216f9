// SPDX-License-Identifier: Apache-2.0

//go:build unix

package measure

import (
	"syscall"
	"time"
)

// cpu is what the process has computed so far.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
