// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"
)

// Each event and query reports how long it waited for the lock: nothing when the lock is free.
//
// Rule METRIC-5.
func TestWaitsForTheLockAreReported(t *testing.T) {
	m := NewMirror(nil)
	var waits []time.Duration
	m.OnLocked = func(waited time.Duration) { waits = append(waits, waited) }
	m.SetPod(pendingPod("a"), false)
	if len(waits) != 1 || waits[0] != 0 {
		t.Errorf("waits for a free lock: %v", waits)
	}

	m.mu.Lock()
	waits = nil
	done := make(chan struct{})
	go func() { defer close(done); m.CountNodes() }()
	m.mu.Unlock()
	<-done
	if len(waits) != 1 {
		t.Errorf("waits for a held lock: %v", waits)
	}
}
