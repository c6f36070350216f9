// SPDX-License-Identifier: Apache-2.0

package provision_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/leader"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// A NodeClaim whose creation returned an error is launched once, whether it was created or not, also
// while watches lag behind.
//
// Rule LAUNCH-14.
func TestCreationWithUnknownOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		err      error
		created  bool // although the request returned the error
		failures int
		want     int // claims after two batches
	}{
		"the response is lost":                 {context.DeadlineExceeded, true, 1, 1},
		"every response is lost":               {context.DeadlineExceeded, true, 9, 1},
		"the API server timed out":             {apierrors.NewTimeoutError("etcd", 1), true, 1, 1},
		"the API server was not reached":       {context.DeadlineExceeded, false, 1, 1},
		"the API server cannot be reached":     {context.DeadlineExceeded, false, 3, 0},
		"the API server refuses the NodeClaim": {apierrors.NewForbidden(schema.GroupResource{}, "", nil), false, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				e.Provisioner.Client = interceptor.NewClient(e.API, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						fails := tc.failures > 0
						tc.failures--
						if !fails || tc.created {
							if err := c.Create(ctx, o, opts...); err != nil || !fails {
								return err
							}
						}
						return tc.err
					},
				})
				e.Create(controllertest.Pool("web", "30s"))
				e.Create(controllertest.Pod("a", "1", "1Gi"))
				e.Feed()
				e.Step() // makes the pool ready; the pod's first batch
				for range 2 {
					_ = e.Provisioner.Provision(t.Context())
				}
				claims := len(e.Claims())
				if claims > tc.want || claims < tc.want && tc.failures < 0 {
					t.Errorf("%d NodeClaims, want %d", claims, tc.want)
				}
				e.Until(90, "a NodeClaim", func() bool { return len(e.Claims()) == 1 })
				e.Steps(70)
				if got := len(e.Claims()); got != 1 {
					t.Errorf("%d NodeClaims in the end, want one", got)
				}
			})
		})
	}
}

// A NodeClaim whose creation seemed to fail is launched once, and keeps its part of limits, while no
// watch shows it and the API server does not answer. The answer that it does not exist ends that.
//
// Rule LAUNCH-14.
func TestClaimCountsUntilTheAPIServerKnowsNone(t *testing.T) {
	for name, created := range map[string]bool{"it was created": true, "it was not created": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				refused := map[string]bool{} // the answer about them is lost
				e.Provisioner.Client = interceptor.NewClient(e.API, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						if len(refused) > 0 && !refused[o.GetName()] {
							return c.Create(ctx, o, opts...)
						}
						refused[o.GetName()] = true
						if created {
							_ = c.Create(ctx, o, opts...) // the second time it exists
						}
						return context.DeadlineExceeded
					},
				})
				down := true
				e.Provisioner.Live = interceptor.NewClient(e.API, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
						if down {
							return apierrors.NewServerTimeout(schema.GroupResource{}, "get", 1)
						}
						return c.Get(ctx, key, o, opts...)
					},
				})
				e.ClaimWatchLost = true
				pool := controllertest.Pool("web", "30s")
				pool.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("1")}
				e.Create(pool)
				for _, pod := range []string{"a", "b"} {
					e.Create(controllertest.Pod(pod, "31", "1Gi")) // each fills a node
				}
				e.Steps(300)
				want := map[bool]int{true: 1}[created]
				if got := len(e.Claims()); got != want || e.Mirror.CountNodes() != 1 {
					t.Fatalf("%d NodeClaims after five minutes, want %d; %d nodes count, want 1", got, want, e.Mirror.CountNodes())
				}
				down = false
				e.Until(60, "one NodeClaim", func() bool { return len(e.Claims()) == 1 })
				e.Steps(120)
				e.ClaimWatchLost = false
				e.Steps(10)
				if got := len(e.Claims()); got != 1 {
					t.Errorf("%d NodeClaims in the end, want one", got)
				}
			})
		})
	}
}

// A creation that the fence refused was not sent: it is not repeated, and neither a limit nor pods wait
// for its outcome.
//
// Rule LEADER-1, Rule LAUNCH-14.
func TestRefusedCreationIsNotRepeated(t *testing.T) {
	for name, because := range map[string]error{
		"another process leads":    leader.ErrNotLeading,
		"the lease cannot be read": apierrors.NewTimeoutError("etcd", 1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				requests := 0
				e.Provisioner.Client = interceptor.NewClient(e.API, interceptor.Funcs{
					Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
						requests++
						return &leader.RefusedError{Err: because}
					},
				})
				pod := controllertest.Pod("a", "1", "1Gi")
				e.Create(controllertest.Pool("web", "30s"))
				e.Create(pod)
				e.Feed()
				e.Step() // makes the pool ready
				requests = 0
				if err := e.Provisioner.Provision(t.Context()); !errors.Is(err, because) {
					t.Errorf("error %v, want %v", err, because)
				}
				if waits := e.Mirror.AnyWaits([]cluster.PodRef{kube.Ref(pod)}); requests != 1 || !waits || e.Mirror.CountNodes() != 0 {
					t.Errorf("%d requests, want 1; the pod waits: %v; %d nodes count", requests, waits, e.Mirror.CountNodes())
				}
			})
		})
	}
}
