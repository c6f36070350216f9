// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// churner has pods come and go on nodes that exist: whatever follows pods has to take them in, and
// nothing has to be decided for them.
type churner struct {
	client client.Client
	nodes  int

	mu   sync.Mutex
	made int
}

// lives is how many pods of the churn exist at a time.
const lives = 1000

// run creates up to perSecond pods each second, and deletes as many, until ctx ends.
func (c *churner) run(ctx context.Context, perSecond float64) Churn {
	limit, began := rate.NewLimiter(rate.Limit(perSecond), 10), time.Now()
	before := c.made
	var workers sync.WaitGroup
	for range writers {
		workers.Go(func() {
			for limit.Wait(ctx) == nil {
				c.step(ctx)
			}
		})
	}
	workers.Wait()
	return Churn{Pods: c.made - before, Seconds: time.Since(began).Seconds()}
}

// step creates the next pod and deletes an old one. Refused requests are not counted, and do not
// matter otherwise.
func (c *churner) step(ctx context.Context) {
	c.mu.Lock()
	i := c.made
	c.made++
	c.mu.Unlock()
	_ = c.client.Create(ctx, passing(i, c.nodes))
	if i >= lives {
		old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: passing(i-lives, c.nodes).Name}}
		_ = c.client.Delete(ctx, old, client.GracePeriodSeconds(0))
	}
}

// claimWatch notes when NodeClaims appear.
type claimWatch struct {
	mu     sync.Mutex
	probes map[string]time.Time // by the value of probeLabel
	first  time.Time            // of the NodePool main since reset
	room   int64                // pods that those were launched for
	full   time.Time            // when there was room for all of want
	want   int64
}

// watchClaims follows NodeClaims until ctx ends.
func watchClaims(ctx context.Context, c cache.Cache) (*claimWatch, error) {
	w := &claimWatch{probes: map[string]time.Time{}}
	informer, err := c.GetInformer(ctx, &karpv1.NodeClaim{})
	if err != nil {
		return nil, fmt.Errorf("watching NodeClaims: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) { w.see(o.(*karpv1.NodeClaim), time.Now()) }})
	return w, err
}

// reset begins to wait for NodeClaims for so many pods.
func (w *claimWatch) reset(pods int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first, w.full, w.room, w.want = time.Time{}, time.Time{}, 0, int64(pods)
}

func (w *claimWatch) see(c *karpv1.NodeClaim, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Labels[karpv1.NodePoolLabelKey] == probePool {
		for _, value := range append(valuesOf(c), c.Labels[probeLabel]) {
			if _, seen := w.probes[value]; !seen {
				w.probes[value] = now
			}
		}
		return
	}
	if c.Status.ProviderID != "" || strings.HasPrefix(c.Name, "bench-") { // made by the benchmark
		return
	}
	if w.first.IsZero() {
		w.first = now
	}
	w.room += c.Spec.Resources.Requests.Pods().Value()
	if w.full.IsZero() && w.room >= w.want {
		w.full = now
	}
}

func valuesOf(c *karpv1.NodeClaim) []string {
	for _, r := range c.Spec.Requirements {
		if r.Key == probeLabel {
			return r.Values
		}
	}
	return nil
}

// decided reports since when the pods have NodeClaims: the first, and the last that was needed.
func (w *claimWatch) decided() (first, full time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first, w.full
}

// seen is when the NodeClaim of a probe appeared.
func (w *claimWatch) seen(id string) (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok = w.probes[id]
	return at, ok
}

// prober creates probes.
type prober struct {
	filler filler
	name   string // of the side: probes of both are told apart by it
	asked  map[string]time.Time
}

// run creates a probe at once, and another every second until ctx ends.
func (p *prober) run(ctx context.Context) error {
	p.asked = map[string]time.Time{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		id := fmt.Sprintf("%s-%04d", p.name, i)
		if err := p.filler.pod(context.WithoutCancel(ctx), probe(id), unschedulable); err != nil {
			return err
		}
		p.asked[id] = time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// latencies are those of the probes with a NodeClaim, in order.
func (p *prober) latencies(w *claimWatch) (all []time.Duration) {
	for id, asked := range p.asked {
		if at, ok := w.seen(id); ok {
			all = append(all, max(0, at.Sub(asked)))
		}
	}
	slices.Sort(all)
	return all
}

// quantile of sorted durations; 0 of none.
func quantile(q float64, sorted []time.Duration) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
