// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// consoleLines and lineLength bound one VM's log, consoles their number.
	consoleLines = 100
	lineLength   = 1000
	consoles     = 4096
)

// consoleLog keeps the last lines of the last VMs: what Azure calls boot
// diagnostics. The zero value is empty and ready.
type consoleLog struct {
	mu    sync.Mutex
	lines map[string][]string
	order []string // VMs, oldest first
}

// add appends one line to a VM's log.
func (c *consoleLog) add(vm, line string, now time.Time) {
	line = strings.ReplaceAll(line, "\n", "; ")
	line = fmt.Sprintf("%s %s", now.UTC().Format(time.RFC3339), line[:min(len(line), lineLength)])
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines == nil {
		c.lines = map[string][]string{}
	}
	if _, known := c.lines[vm]; !known {
		c.admit(vm)
	}
	lines := append(c.lines[vm], line)
	if len(lines) > consoleLines {
		// The first lines tell how the boot went, the last what is wrong now.
		lines = append(lines[:consoleLines/2:consoleLines/2], lines[consoleLines/2+1:]...)
	}
	c.lines[vm] = lines
}

// admit makes room for another VM. The caller holds mu.
func (c *consoleLog) admit(vm string) {
	if len(c.order) == consoles {
		delete(c.lines, c.order[0])
		c.order = append(c.order[:0], c.order[1:]...)
	}
	c.order = append(c.order, vm)
}

// read is a VM's whole log, empty for one that never booted.
func (c *consoleLog) read(vm string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines[vm], "\n")
}
