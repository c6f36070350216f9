// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// countsStay is how long a pool's counters can be read after its end: a scraper that reads
// metrics once a minute, or misses some reads, still gets the last deletions.
const countsStay = 10 * time.Minute

// deletedPools holds since when pools are deleted of which state is still kept, by name. The zero
// value holds none.
type deletedPools struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// expire reports whether the pool was deleted at least countsStay ago, and then forgets it. The
// first call for a pool begins to count.
func (d *deletedPools) expire(pool string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	since, known := d.since[pool]
	switch {
	case !known:
		if d.since == nil {
			d.since = map[string]time.Time{}
		}
		d.since[pool] = now
		return false
	case now.Sub(since) < countsStay:
		return false
	}
	delete(d.since, pool)
	return true
}

// remove forgets that the pool was deleted: it exists, or nodes of it do.
func (d *deletedPools) remove(pool string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, pool)
}

// dropState drops the state of a deleted pool: usage and limits at once, counters some time after
// its last node is deleted.
func (r *Reconciler) dropState(ctx context.Context, pool string) (reconcile.Result, error) {
	r.dropGauges(pool)
	if err := r.dropOutcomes(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if r.Mirror.HasNodes(pool) {
		r.gone.remove(pool)
		return reconcile.Result{RequeueAfter: countsStay}, nil
	}
	if !r.gone.expire(pool, time.Now()) {
		return reconcile.Result{RequeueAfter: countsStay}, nil
	}
	r.Metrics.ForgetPool(pool)
	return reconcile.Result{}, nil
}

// dropOutcomes drops deleted pools from the ledger.
func (r *Reconciler) dropOutcomes(ctx context.Context) error {
	pools := &karpv1.NodePoolList{}
	if err := r.Client.List(ctx, pools); err != nil {
		return fmt.Errorf("listing nodepools: %w", err)
	}
	there := map[types.UID]bool{}
	for i := range pools.Items {
		there[pools.Items[i].UID] = true
	}
	r.Health.Keep(there)
	return nil
}
