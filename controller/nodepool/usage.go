// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
)

// count sums up the resources that the pool has provisioned. It reads the NodeClaims of the cache
// and not those of the Mirror, which may not have handled the event yet that queued the pool.
func (r *Reconciler) count(ctx context.Context, pool *karpv1.NodePool) error {
	claims := &karpv1.NodeClaimList{}
	err := r.Client.List(ctx, claims, client.MatchingLabels{karpv1.NodePoolLabelKey: pool.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("counting the nodeclaims of nodepool %s: %w", pool.Name, err)
	}
	sum, nodes := quantity.Amounts{}, int64(0)
	for i := range claims.Items {
		if claim := &claims.Items[i]; claim.DeletionTimestamp == nil {
			nodes++
			sum = sum.Add(r.capacity(claim))
		}
	}
	sum[quantity.NameNodes] = nodes
	resources := kube.ResourceList(sum)
	resources[quantity.NameNodes] = *resource.NewQuantity(nodes, resource.DecimalSI) // also when there are none
	if !equality.Semantic.DeepEqual(pool.Status.Resources, resources) {
		pool.Status.Resources = resources
	}
	pool.Status.Nodes = &nodes
	r.setGauges(pool, sum)
	return nil
}

// capacity is the real capacity of the claim's node, once that is known.
func (r *Reconciler) capacity(claim *karpv1.NodeClaim) quantity.Amounts {
	if m, ok := r.Mirror.ManagedNode(claim.Name); ok && m.Node != nil && len(m.Node.Status.Capacity) > 0 {
		return kube.Amounts(m.Node.Status.Capacity)
	}
	return kube.Amounts(claim.Status.Capacity)
}

// setGauges shows usage and limits. A resource of which nothing is used any more is shown as
// nothing, so that sums over time are right; a limit that was taken off is not shown.
func (r *Reconciler) setGauges(pool *karpv1.NodePool, usage quantity.Amounts) {
	shown := r.shown.of(pool.Name)
	for name := range shown.usage {
		usage[name] += 0
	}
	for name, n := range usage {
		shown.usage[name] = true
		r.Metrics.PoolUsage.WithLabelValues(name, pool.Name).Set(dashboardUnits(name, n))
	}
	limits := kube.Amounts(corev1.ResourceList(pool.Spec.Limits))
	for name := range shown.limits {
		if _, limited := limits[name]; !limited {
			r.Metrics.PoolLimit.DeleteLabelValues(name, pool.Name)
			delete(shown.limits, name)
		}
	}
	for name, n := range limits {
		shown.limits[name] = true
		r.Metrics.PoolLimit.WithLabelValues(name, pool.Name).Set(dashboardUnits(name, n))
	}
}

// dashboardUnits converts base units into those of dashboards: cores, not milli-cores.
func dashboardUnits(name string, n int64) float64 {
	if name == quantity.NameCPU {
		return float64(n) / 1000
	}
	return float64(n)
}

// dropGauges ends the series of a deleted pool's usage and limits.
func (r *Reconciler) dropGauges(pool string) {
	r.shown.forget(pool)
	for _, gauge := range []*prometheus.GaugeVec{
		r.Metrics.PoolUsage, r.Metrics.PoolLimit, r.Metrics.AllowedDisruptions, r.Metrics.ConsumingBudgets, r.Metrics.BlockedCost,
	} {
		gauge.DeletePartialMatch(prometheus.Labels{"nodepool": pool})
	}
}

// shownSeries are the resources of which a pool has series. The zero value has none.
type shownSeries struct {
	mu     sync.Mutex
	byPool map[string]poolSeries
}

// poolSeries is one pool's. Pools are reconciled one at a time each, so it needs no guard.
type poolSeries struct{ usage, limits map[string]bool }

func (s *shownSeries) of(pool string) poolSeries {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byPool[pool]; !known {
		if s.byPool == nil {
			s.byPool = map[string]poolSeries{}
		}
		s.byPool[pool] = poolSeries{usage: map[string]bool{}, limits: map[string]bool{}}
	}
	return s.byPool[pool]
}

func (s *shownSeries) forget(pool string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byPool, pool)
}
