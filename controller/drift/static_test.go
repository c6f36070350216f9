// SPDX-License-Identifier: Apache-2.0

package drift_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

func staticPool(replicas int64, limit string) *karpv1.NodePool {
	p := controllertest.Pool("web", "Never")
	p.Spec.Replicas, p.Spec.Limits = &replicas, karpv1.Limits{"nodes": resource.MustParse(limit)}
	return p
}

// fixed makes a cluster of a static pool with all its nodes, all of which drift.
func fixed(t *testing.T, replicas int64, limit string) *cluster {
	t.Helper()
	c := &cluster{Env: controllertest.New(t, memory.Options{})}
	c.renew()
	c.Create(staticPool(replicas, limit))
	c.Until(60, "nodes", func() bool { c.Join(); return len(c.Nodes()) == int(replicas) })
	c.Steps(5)
	c.Cloud.PublishImage("newer")
	if got := len(c.drifted()); got != int(replicas) {
		t.Fatalf("%d of %d have drifted", got, replicas)
	}
	return c
}

// live does one round of all controllers and counts the claims after it.
func (c *cluster) live() (claims, staying, outdated int) {
	c.Step()
	c.Join()
	c.drifted()
	for _, claim := range c.Claims() {
		claims++
		if claim.DeletionTimestamp == nil && claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
			staying++
		}
		if claim.Status.ImageID == "memory-image" {
			outdated++
		}
	}
	return claims, staying, outdated
}

// All nodes of a static pool drift at once: each is replaced before it is deleted, so there are
// never fewer nodes without a deletion timestamp than replicas, nor more than the limit allows.
//
// Rule STATIC-5.
func TestStaticPoolIsRenewedWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fixed(t, 3, "4")
		for range 600 {
			claims, staying, outdated := c.live()
			if claims > 4 || staying < 3 {
				t.Fatalf("%d claims, limit 4; %d nodes work, want 3", claims, staying)
			}
			if claims == 3 && outdated == 0 {
				return
			}
		}
		t.Error("not all nodes were renewed within 600 rounds")
	})
}

// A limit that does not allow one more node keeps the nodes.
//
// Rule STATIC-5.
func TestStaticPoolAtItsLimitKeepsItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fixed(t, 3, "3")
		for range 100 {
			if claims, staying, outdated := c.live(); claims != 3 || staying != 3 || outdated != 3 {
				t.Fatalf("%d claims, %d nodes work, %d are outdated", claims, staying, outdated)
			}
		}
	})
}
