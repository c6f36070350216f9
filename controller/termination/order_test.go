package termination_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/termination"
)

// The largest pods of a group are asked first, each when the one before was answered;
// where answers take long the others are asked side by side.
//
// Rule 28.
func TestLargestPodsLeaveFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		answer time.Duration
		within time.Duration // all were asked
	}{
		"quick answers": {10 * time.Millisecond, time.Second},
		"slow answers":  {1500 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := withNode(t, nil, controllertest.Pod("small-a", "100m", "100Mi"), controllertest.Pod("small-b", "100m", "100Mi"),
					controllertest.Pod("large", "6", "6Gi"), controllertest.Pod("hungry", "100m", "9Gi"), critical(controllertest.Pod("critical", "8", "10Gi")))
				var asked []string
				var first, last time.Time
				var mu sync.Mutex
				api := interceptor.NewClient(e.API, interceptor.Funcs{
					SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
						mu.Lock()
						if last = time.Now(); first.IsZero() {
							first = last
						}
						if o.GetName() != "critical" && len(asked) < 2 { // more come side by side
							asked = append(asked, o.GetName())
						}
						mu.Unlock()
						time.Sleep(tc.answer)
						return c.SubResource(sub).Create(ctx, o, s, opts...)
					},
				})
				e.Termination.Evictor = termination.NewEvictor(api, e.Events, e.Metrics, e.Termination.Log)
				claim := e.Claims()[0]
				e.Delete(&claim)
				e.Step()
				if want := []string{"large", "hungry"}; !slices.Equal(asked, want) {
					t.Errorf("asked %v first, want %v", asked, want)
				}
				if took := last.Sub(first); took > tc.within {
					t.Errorf("asking took %s", took)
				}
			})
		})
	}
}
