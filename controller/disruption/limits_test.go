// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/engine/disrupt"
)

// A pending pod and a drifted node need one more node each while limits.nodes allows one: whichever
// decision is carried out while the other is under way, the limit holds.
//
// Rule LIMIT-1, Rule LIMIT-3.
func TestLimitHoldsWhileDecisionsOverlap(t *testing.T) {
	pending := func() *corev1.Pod { return controllertest.Pod("pending", "31850m", "1Gi") }
	for name, overlap := range map[string]func(e *controllertest.Env, s *script){
		"the node is replaced while the pod's NodeClaim is created": func(e *controllertest.Env, s *script) {
			e.Create(pending())
			e.Provisioner.Client = before(e, e.Client, func(o client.Object) bool { _, is := o.(*karpv1.NodeClaim); return is }, nil, func() {
				s.off = false
				for range 3 {
					_ = e.Disruption.Disrupt(context.Background())
					e.Feed()
				}
			})
		},
		"the pod's NodeClaim is created while the node is marked": func(e *controllertest.Env, s *script) {
			e.Disrupt = func(c *disruption.Options) {
				c.Search, c.Recheck = s.search, s.recheck
				c.Client = before(e, c.Client, nil, func(o client.Object) bool { _, is := o.(*karpv1.NodeClaim); return is }, func() {
					e.Create(pending())
					e.Feed()
					_ = e.Provisioner.Provision(context.Background())
					e.Feed()
				})
			}
			e.Restart()
			e.Feed()
			s.off = false
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := scripted(t, 1, disrupt.Drifted)
				e.Pace = time.Second
				pool := controllertest.Get(e, &karpv1.NodePool{}, "web")
				pool.Spec.Limits = karpv1.Limits{"nodes": resource.MustParse("2")}
				if err := e.API.Update(t.Context(), pool); err != nil {
					t.Fatal(err)
				}
				e.Feed()
				overlap(e, s)
				for range 20 {
					e.Step()
					if got := len(e.Claims()); got > 2 {
						t.Fatalf("%d NodeClaims, limits.nodes is 2", got)
					}
				}
				if got := len(e.Claims()); got != 2 {
					t.Errorf("%d NodeClaims, the limit allows 2", got)
				}
			})
		})
	}
}

// before is a client that calls do before the first creation or patch of such an object.
func before(e *controllertest.Env, c client.Client, created, patched func(client.Object) bool, do func()) client.Client {
	once := func(is func(client.Object) bool, o client.Object) {
		if run := do; run != nil && is != nil && is(o) {
			do = nil
			run()
		}
	}
	return interceptor.NewClient(withWatch{c, e.API}, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			once(created, o)
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			once(patched, o)
			return c.Patch(ctx, o, p, opts...)
		},
	})
}
