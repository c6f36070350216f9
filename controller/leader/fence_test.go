// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lease is a lease in memory, and a lock on it.
type lease struct {
	record resourcelock.LeaderElectionRecord
	down   error
	reads  int
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.reads++
	record := l.record
	return &record, nil, l.down
}

func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *lease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.down == nil {
		l.record = r
	}
	return l.down
}

func (l *lease) RecordEvent(string) {}
func (l *lease) Identity() string   { return "me" }
func (l *lease) Describe() string   { return "lease" }

// counting is a client that counts creations.
type counting struct {
	client.Client
	created int
}

func (c *counting) Create(context.Context, client.Object, ...client.CreateOption) error {
	c.created++
	return nil
}

// A leader that is paused between its decision and its write, and then resumed, writes only if no
// other led meanwhile. While it renews its lease, no write takes a read of the lease.
//
// Rule LEADER-1.
func TestPausedLeaderWritesNothing(t *testing.T) {
	down := errors.New("no route to host")
	record := func(holder string, transitions int) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: transitions}
	}
	for name, tc := range map[string]struct {
		pause     time.Duration
		meanwhile func(*lease)
		want      error // nil: it writes
		reads     int
	}{
		"no pause":                      {0, func(*lease) {}, nil, 0},
		"shorter than others wait":      {9 * time.Second, func(l *lease) { l.down = down }, nil, 0},
		"nobody else took the lease":    {time.Minute, func(*lease) {}, nil, 1},
		"another leads":                 {time.Minute, func(l *lease) { l.record = record("other", 4) }, ErrNotLeading, 1},
		"another led":                   {time.Minute, func(l *lease) { l.record = record("me", 5) }, ErrNotLeading, 1},
		"the lease was released":        {time.Minute, func(l *lease) { l.record = record("", 3) }, ErrNotLeading, 1},
		"the API server cannot be read": {time.Minute, func(l *lease) { l.down = down }, down, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, f, api := &lease{}, &Fence{}, &counting{}
				lock, writer := f.Guard(l, l, 10*time.Second), f.Client(api)
				if err := writer.Create(t.Context(), &corev1.Pod{}); !errors.Is(err, ErrNotLeading) {
					t.Fatalf("before it leads: %v", err)
				}
				l.reads = 0
				if err := lock.Create(t.Context(), record("me", 3)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tc.pause)
				tc.meanwhile(l)
				err := writer.Create(t.Context(), &corev1.Pod{})
				if !errors.Is(err, tc.want) || (err == nil) != (api.created == 1) || l.reads != tc.reads {
					t.Errorf("error %v, want %v; %d writes; %d reads of the lease, want %d", err, tc.want, api.created, l.reads, tc.reads)
				}
			})
		})
	}
}

// A process that gave its lease back writes nothing more, and without an election everything passes.
//
// Rule LEADER-1.
func TestReleasedLeaseAndNoElection(t *testing.T) {
	l, f := &lease{}, &Fence{}
	if err := f.Check(t.Context()); err != nil {
		t.Errorf("without an election: %v", err)
	}
	lock := f.Guard(l, l, 10*time.Second)
	for _, holder := range []string{"me", ""} {
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder}); err != nil {
			t.Fatal(err)
		}
		if err := f.Check(t.Context()); (err == nil) != (holder == "me") {
			t.Errorf("held by %q: %v", holder, err)
		}
	}
}
