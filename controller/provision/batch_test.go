// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A standby replica is triggered by every pod and never takes a batch.
func TestBatcherOfStandbyDoesNotGrow(t *testing.T) {
	b := NewBatcher(0, 0)
	for i := range 1000 {
		b.Trigger(strconv.Itoa(i))
	}
	if len(b.known) > 1 {
		t.Errorf("remembers %d pods of a batch that nobody waits for", len(b.known))
	}
	if !b.Wait(context.Background(), time.Hour) {
		t.Error("no batch once it leads")
	}
}

// Whatever other pods are created meanwhile, pods whose node is interrupted wait a tenth of a
// second.
//
// Rule INTERRUPTION-7.
func TestBatchOfUrgentPods(t *testing.T) {
	for name, busy := range map[string]bool{"idle": false, "busy": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBatcher(0, 0)
				if busy {
					b.Trigger("earlier")
					b.Wait(t.Context(), time.Hour)
				}
				for i := range 200 { // pods and eviction notices, for ten seconds
					time.AfterFunc(time.Duration(i)*50*time.Millisecond, func() { b.Trigger(strconv.Itoa(i)); b.Urgent(strconv.Itoa(i)) })
				}
				start := time.Now()
				for range 50 {
					b.Wait(t.Context(), time.Hour)
					if took := time.Since(start); took > 150*time.Millisecond {
						t.Fatalf("a batch took %s", took)
					}
					start = time.Now()
				}
				time.Sleep(10 * time.Second)
			})
		})
	}
}

// A batch that is open already closes once an urgent pod comes.
//
// Rule INTERRUPTION-7.
func TestUrgentPodClosesOpenBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBatcher(0, 0)
		b.Trigger("earlier")
		b.Wait(t.Context(), time.Hour)
		start := time.Now()
		b.Trigger("patient")
		time.AfterFunc(300*time.Millisecond, func() { b.Urgent("evicted") })
		b.Wait(t.Context(), time.Hour)
		if took := time.Since(start); took != 400*time.Millisecond {
			t.Errorf("closed after %s, want 400ms", took)
		}
	})
}
