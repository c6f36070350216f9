// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// stirring returns its entries on one call after the other.
type stirring [][]string

func (s *stirring) DriftChanged() (now []string) {
	if len(*s) > 0 {
		now, *s = (*s)[0], (*s)[1:]
	}
	return now
}

// Claims whose instances have changed are reconciled within seconds, each once.
//
// Rule DRIFT-10.
func TestChangedInstancesAreLookedAtSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := listener{&stirring{nil, {"a", "b"}, nil, {"c"}}, make(chan event.GenericEvent)}
		ended := make(chan error)
		go func() { ended <- l.listen(ctx) }()
		begun := time.Now()
		for _, want := range []struct {
			name string
			at   time.Duration
		}{{"a", pollEvery}, {"b", pollEvery}, {"c", 3 * pollEvery}} {
			got := (<-l.wake).Object.GetName()
			if at := time.Since(begun); got != want.name || at != want.at {
				t.Errorf("%s after %v, want %s after %v", got, at, want.name, want.at)
			}
		}
		select {
		case e := <-l.wake:
			t.Errorf("%s again", e.Object.GetName())
		case <-time.After(time.Hour):
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
