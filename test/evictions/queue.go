// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue calls a reconciler as a manager would.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	of reconcile.Reconciler
}

// workers is how many objects a controller of karve works on at once.
const workers = 50

func newQueue(ctx context.Context, running *sync.WaitGroup, of reconcile.Reconciler) *queue {
	q := &queue{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()), of}
	for range workers {
		running.Go(func() {
			for q.work(ctx) {
			}
		})
	}
	return q
}

func (q *queue) wake(o client.Object) {
	q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
}

func (q *queue) work(ctx context.Context) bool {
	r, over := q.Get()
	if over {
		return false
	}
	defer q.Done(r)
	result, err := q.of.Reconcile(ctx, r)
	switch {
	case err != nil:
		q.AddRateLimited(r)
	case result.RequeueAfter > 0:
		q.Forget(r)
		q.AddAfter(r, result.RequeueAfter)
	default:
		q.Forget(r)
	}
	return true
}
