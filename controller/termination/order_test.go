// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/termination"
)

// The eviction of the largest pods of a group is requested first, each after the response for the
// one before; where responses are slow the others are requested in parallel.
//
// Rule DRAIN-1.
func TestLargestPodsLeaveFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		answer time.Duration
		within time.Duration // all were requested
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
						if o.GetName() != "critical" && len(asked) < 2 { // more follow in parallel
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

// Evictor.BeforeRemoval is called with each pod before it is evicted, or deleted to meet its node's
// deadline: afterwards a pod that gets a replacement looks like one that was scaled down.
//
// Rule DRAIN-8.
func TestBeforeRemovalIsCalled(t *testing.T) {
	for name, left := range map[string]time.Duration{"evicted": 0, "deleted": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := withNode(t, nil, controllertest.Pod("one", "1", "1Gi"), controllertest.Pod("other", "1", "1Gi"))
				told, asked := map[string]bool{}, 0
				check := func(pod string) {
					if asked++; !told[pod] {
						t.Errorf("%s is asked to go unannounced", pod)
					}
				}
				api := interceptor.NewClient(e.API, interceptor.Funcs{
					SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
						check(o.GetName())
						return c.SubResource(sub).Create(ctx, o, s, opts...)
					},
					Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
						check(o.GetName())
						return c.Delete(ctx, o, opts...)
					},
				})
				evictor := termination.NewEvictor(api, e.Events, e.Metrics, e.Termination.Log)
				evictor.BeforeRemoval = func(p *corev1.Pod) { told[p.Name] = true }
				var deadline time.Time
				if left > 0 {
					deadline = time.Now().Add(left)
				}
				if _, err := evictor.Drain(t.Context(), &e.Nodes()[0], deadline); err != nil {
					t.Fatal(err)
				}
				if asked < 2 {
					t.Errorf("%d were asked to go, want both", asked)
				}
			})
		})
	}
}
