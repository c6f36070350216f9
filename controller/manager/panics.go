// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube/state"
)

// ReportPanics returns a Reporter that logs panics with their stack.
func ReportPanics(log logr.Logger) *panics.Reporter {
	return &panics.Reporter{Log: func(p *panics.Panic) {
		log.Error(p, "recovered from a panic and going on; please report this", "where", p.Where, "about", p.About, "stack", string(p.Stack))
	}}
}

// recoverFrom counts panics, and lets the Mirror continue after them.
func recoverFrom(p *panics.Reporter, m *state.Mirror, set *metrics.Set, recorder *events.Recorder) {
	p.Count = func(where string) { set.Panics.WithLabelValues(where).Inc() }
	m.Panics, m.OnLeftOut = p, leaveOut(recorder)
}

// leaveOut publishes an event on an object that karve leaves out after a panic.
func leaveOut(recorder *events.Recorder) func(client.Object, *panics.Panic) {
	return func(o client.Object, because *panics.Panic) {
		recorder.Publish(events.Event{About: o, Warning: true, Reason: "ObjectIgnored", Key: "panic", Message: fmt.Sprintf(
			"karve decides as if this object did not exist until it changes, for handling it failed: %v; please report this, with karve's log", because)})
	}
}

// guardedCache is a cache whose informers continue when one of karve's handlers panics, or a
// function that controllers apply to an object before they queue it (predicates, the mapping to
// requests, index functions). The event is lost to that handler only.
type guardedCache struct {
	cache.Cache
	panics *panics.Reporter
	ending *ending
}

// ending is how a Manager learns that Run is asked to end.
type ending struct{ asked <-chan struct{} }

func newGuardedCache(p *panics.Reporter, ending *ending) cache.NewCacheFunc {
	return func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
		inner, err := cache.New(cfg, o)
		return guardedCache{inner, p, ending}, err
	}
}

// WaitForCacheSync implements cache.Informers. Once the manager stops, it waits no longer and says
// that all is well: controller-runtime's manager, when asked to stop while it starts, spins on one CPU
// until its caches have synced, which they never do while the API server does not answer.
func (c guardedCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	synced := make(chan bool, 1)
	var group panics.Group
	group.Go(func() error { synced <- c.Cache.WaitForCacheSync(ctx); return nil })
	select {
	case yes := <-synced:
		return yes
	case <-c.ending.asked:
		return true
	}
}

// GetInformer implements cache.Informers.
func (c guardedCache) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	inner, err := c.Cache.GetInformer(ctx, o, opts...)
	return guardedInformer{inner, c.panics}, err
}

// GetInformerForKind implements cache.Informers.
func (c guardedCache) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	inner, err := c.Cache.GetInformerForKind(ctx, kind, opts...)
	return guardedInformer{inner, c.panics}, err
}

// IndexField implements client.FieldIndexer.
func (c guardedCache) IndexField(ctx context.Context, of client.Object, field string, extract client.IndexerFunc) error {
	return c.Cache.IndexField(ctx, of, field, func(o client.Object) (values []string) {
		_ = c.panics.Try("index", about(o), func() { values = extract(o) })
		return values
	})
}

type guardedInformer struct {
	cache.Informer
	panics *panics.Reporter
}

// GetStore returns the informer's store; see state.Mirror.
func (i guardedInformer) GetStore() toolscache.Store {
	if stored, ok := i.Informer.(interface{ GetStore() toolscache.Store }); ok {
		return stored.GetStore()
	}
	return nil
}

// AddEventHandler implements cache.Informer.
func (i guardedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i guardedInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(guardedHandler{h, i.panics}, o)
}

type guardedHandler struct {
	inner  toolscache.ResourceEventHandler
	panics *panics.Reporter
}

// handling is where panics of handlers are counted.
const handling = "informer"

// OnAdd implements toolscache.ResourceEventHandler.
func (h guardedHandler) OnAdd(o any, listed bool) {
	_ = h.panics.Try(handling, about(o), func() { h.inner.OnAdd(o, listed) })
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h guardedHandler) OnUpdate(old, now any) {
	_ = h.panics.Try(handling, about(now), func() { h.inner.OnUpdate(old, now) })
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h guardedHandler) OnDelete(o any) {
	_ = h.panics.Try(handling, about(o), func() { h.inner.OnDelete(o) })
}

// about names an object by its type, namespace and name.
func about(o any) string {
	if named, ok := o.(client.Object); ok {
		return fmt.Sprintf("%T %s", o, client.ObjectKeyFromObject(named))
	}
	return fmt.Sprintf("%T", o)
}

// guardedRegistry registers collectors that the registry runs in goroutines of its own when
// it is scraped: one that panics has no values.
type guardedRegistry struct {
	prometheus.Registerer
	panics *panics.Reporter
}

// MustRegister implements prometheus.Registerer.
func (r guardedRegistry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		r.Registerer.MustRegister(guardedCollector{c, r.panics})
	}
}

type guardedCollector struct {
	prometheus.Collector
	panics *panics.Reporter
}

// Collect implements prometheus.Collector.
func (c guardedCollector) Collect(out chan<- prometheus.Metric) {
	_ = c.panics.Try("metrics", "", func() { c.Collector.Collect(out) })
}
