// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watched is a cluster that a Mirror follows through client-go's own informers. Its watches can
// be cut: changes made meanwhile arrive with the next list, as after an outage. They can lag, so
// that changes arrive late, after those of other kinds. Events can be sent twice, and bookmarks.
type watched struct {
	cache.Informers // nil: Attach asks for informers only

	kinds map[reflect.Type]*shelf
}

// watchCluster is an empty cluster that the Mirror follows until the test's bubble ends. seeds
// are there when the Mirror lists first.
func watchCluster(t *testing.T, m *Mirror, seeds ...client.Object) *watched {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &watched{kinds: map[reflect.Type]*shelf{}}
	if err := m.Attach(ctx, c); err != nil {
		t.Fatal(err)
	}
	for _, o := range seeds {
		c.put(o)
	}
	var running sync.WaitGroup
	for _, s := range c.kinds {
		running.Go(func() { s.informer.RunWithContext(ctx) })
	}
	t.Cleanup(func() { stop(); running.Wait() })
	synctest.Wait()
	if !m.Synced() {
		t.Fatal("the Mirror is not in step with an API that answers")
	}
	return c
}

// GetInformer implements cache.Informers.
func (c *watched) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	s := &shelf{of: o, objects: map[string]client.Object{}}
	s.informer = toolscache.NewSharedIndexInformer(s, o, time.Minute, toolscache.Indexers{})
	c.kinds[typeOf(o)] = s
	return s.informer, nil
}

func (c *watched) shelf(o client.Object) *shelf { return c.kinds[typeOf(o)] }

// put creates or updates an object.
func (c *watched) put(o client.Object) { c.shelf(o).put(o.DeepCopyObject().(client.Object)) }

// remove deletes an object, whose last state is o.
func (c *watched) remove(o client.Object) { c.shelf(o).remove(o.DeepCopyObject().(client.Object)) }

// cut ends the watch of a kind, makes changes, and lets the kind be listed again.
func (c *watched) cut(o client.Object, during func()) {
	s := c.shelf(o)
	s.cut()
	during()
	s.heal()
	c.settle()
}

// settle lets events arrive, and kinds that were cut be listed again.
func (c *watched) settle() {
	time.Sleep(5 * time.Minute) // longer than reflectors pause after a failure
	synctest.Wait()
}

// objects are all objects, by kind and name.
func (c *watched) objects() []client.Object {
	var out []client.Object
	for _, s := range c.kinds {
		out = append(out, slices.Collect(maps.Values(s.objects))...)
	}
	return out
}

// lag keeps back the events of a kind, makes changes, and lets them arrive one by one. They arrive
// with the watch that is open or with the next one, which begins where the last one ended.
func (c *watched) lag(o client.Object, reopen bool, during func()) {
	s := c.shelf(o)
	s.pause()
	during()
	s.resume(reopen)
	c.settle()
}

// shelf is the objects of one kind, as an API server lists and watches them.
type shelf struct {
	of       client.Object
	informer toolscache.SharedIndexInformer

	mu      sync.Mutex
	version int
	objects map[string]client.Object
	open    *watch.RaceFreeFakeWatcher // nil between watches
	broken  bool                       // neither lists nor watches are answered
	paused  bool                       // events are kept in history for now
	// history has the events since version oldest, and sent how many of them the open watch sent.
	history []watch.Event
	oldest  int
	sent    int
}

// IsWatchListSemanticsUnSupported makes reflectors list first and then watch.
func (s *shelf) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.ListerWatcher.
func (s *shelf) List(metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return nil, apierrors.NewServiceUnavailable("cut")
	}
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		list.Items = append(list.Items, runtime.RawExtension{Object: s.objects[name].DeepCopyObject()})
	}
	return list, nil
}

// Watch implements cache.ListerWatcher.
func (s *shelf) Watch(o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, err := strconv.Atoi(o.ResourceVersion)
	if s.broken || err != nil || since < s.oldest {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	s.open = watch.NewRaceFreeFake()
	s.sent = slices.IndexFunc(s.history, func(e watch.Event) bool { return versionOf(e) > since })
	if s.sent < 0 {
		s.sent = len(s.history)
	}
	s.flush()
	return s.open, nil
}

// flush sends what the open watch has not sent.
func (s *shelf) flush() {
	if s.open == nil || s.paused {
		return
	}
	for _, e := range s.history[s.sent:] {
		s.open.Action(e.Type, e.Object.DeepCopyObject())
	}
	s.sent = len(s.history)
}

// record gives an event the next version, and sends it.
func (s *shelf) record(kind watch.EventType, o client.Object) {
	s.version++
	o.SetResourceVersion(fmt.Sprint(s.version))
	s.history = append(s.history, watch.Event{Type: kind, Object: o})
	s.flush()
}

func (s *shelf) put(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := watch.Added
	if s.objects[nameOf(o)] != nil {
		kind = watch.Modified
	}
	s.objects[nameOf(o)] = o
	s.record(kind, o)
}

func (s *shelf) remove(o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, nameOf(o))
	s.record(watch.Deleted, o)
}

// repeat sends an event about an object again, and a bookmark.
func (s *shelf) repeat(kind watch.EventType, o client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil || s.paused {
		return
	}
	s.open.Action(kind, o.DeepCopyObject())
	mark := reflect.New(typeOf(s.of).Elem()).Interface().(client.Object)
	mark.SetResourceVersion(fmt.Sprint(s.version))
	s.open.Action(watch.Bookmark, mark)
}

// cut ends the watch: what happens from now on is in no watch.
func (s *shelf) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = true
	if s.open == nil {
		return
	}
	gone := apierrors.NewResourceExpired("too old resource version").Status()
	s.open.Error(&gone)
	s.open = nil
}

func (s *shelf) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++ // as if other kinds had been written meanwhile
	s.broken, s.history, s.oldest = false, nil, s.version
}

// pause keeps events back, and resume sends them, or leaves that to the watch that follows.
func (s *shelf) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
}

func (s *shelf) resume(reopen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
	if reopen && s.open != nil {
		s.open.Stop()
		s.open = nil
	}
	s.flush()
}

func versionOf(e watch.Event) int {
	n, _ := strconv.Atoi(e.Object.(client.Object).GetResourceVersion())
	return n
}

func nameOf(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() }

func typeOf(o client.Object) reflect.Type { return reflect.TypeOf(o) }
