// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/karve-dev/karve/local"
)

// history is every version that objects of some kinds ever had, in the order in
// which the API server wrote them: what it did not show at any instant did not
// happen. All kinds lie in one etcd, whose revisions order them.
type history struct {
	mu       sync.Mutex
	versions []version
	broken   error
}

// version is one write; object is nil where it was a deletion.
type version struct {
	revision uint64
	id       objectID
	object   *object
}

// object is what a watch showed. It is seen at many instants, and read into its type once.
type object struct {
	*unstructured.Unstructured
	typed any
}

type objectID struct{ resource, namespace, name string }

var (
	nodesKind  = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	podsKind   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	claimsKind = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	slicesKind = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// record writes history down from now until the test ends.
func record(t *testing.T, env *local.Environment, kinds ...schema.GroupVersionResource) *history {
	t.Helper()
	c, err := dynamic.NewForConfig(env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	h := &history{}
	var writers sync.WaitGroup
	t.Cleanup(func() { stop(); writers.Wait() })
	for _, kind := range kinds {
		list, err := c.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			h.note(kind.Resource, &list.Items[i], false)
		}
		w, err := c.Resource(kind).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		writers.Go(func() { h.follow(ctx, kind.Resource, w) })
	}
	return h
}

func (h *history) follow(ctx context.Context, resource string, w watch.Interface) {
	defer w.Stop()
	for e := range w.ResultChan() {
		object, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Error {
			h.fail(fmt.Errorf("watching %s: %v", resource, e.Object))
			return
		}
		h.note(resource, object, e.Type == watch.Deleted)
	}
	if ctx.Err() == nil {
		h.fail(fmt.Errorf("the watch of %s ended", resource))
	}
}

func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
}

func (h *history) note(resource string, o *unstructured.Unstructured, deleted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	revision, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		h.broken = fmt.Errorf("the version of %s %s: %w", resource, o.GetName(), err)
		return
	}
	v := version{revision: revision, id: objectID{resource, o.GetNamespace(), o.GetName()}}
	if !deleted {
		v.object = &object{Unstructured: o}
	}
	h.versions = append(h.versions, v)
}

// instant is the cluster right after a write.
type instant struct {
	of      version
	objects map[objectID]*object
}

// replay shows every instant so far to see, first to last. What the watches have
// not shown yet is not in it: ask for a moment that is over.
func (h *history) replay(t *testing.T, see func(instant)) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil {
		t.Errorf("the history has a hole: %v", h.broken)
	}
	slices.SortStableFunc(h.versions, func(a, b version) int { return cmp.Compare(a.revision, b.revision) })
	now := instant{objects: map[objectID]*object{}}
	for _, v := range h.versions {
		now.of = v
		if v.object == nil {
			delete(now.objects, v.id)
		} else {
			now.objects[v.id] = v.object
		}
		see(now)
	}
}

// each visits the objects of a kind.
func (now instant) each(kind schema.GroupVersionResource, visit func(*object)) {
	for id, o := range now.objects {
		if id.resource == kind.Resource {
			visit(o)
		}
	}
}

// as reads an object into its type.
func as[T any](t *testing.T, o *object) *T {
	t.Helper()
	if into, read := o.typed.(*T); read {
		return into
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		t.Fatal(err)
	}
	o.typed = into
	return into
}
