// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	crmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/memory"
)

// adding is a manager that records the runnables added to it.
type adding struct {
	crmanager.Manager
	added []crmanager.Runnable
}

func (a *adding) Add(r crmanager.Runnable) error { a.added = append(a.added, r); return nil }

// failing panics when it is run first.
type failing struct{ runs int }

func (f *failing) Start(context.Context) error {
	if f.runs++; f.runs == 1 {
		panic("boom")
	}
	return errors.New("over")
}

func (f *failing) NeedLeaderElection() bool { return false }

// A loop that panics runs again in the same place.
//
// Rule PANIC-1.
func TestLoopsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, loop, where := &adding{}, &failing{}, ""
		m := &Manager{inner: inner}
		reporter := &panics.Reporter{Log: func(*panics.Panic) {}, Count: func(w string) { where = w }}
		if err := m.add(reporter, named{"loop", loop}); err != nil {
			t.Fatal(err)
		}
		if inner.added[0].(crmanager.LeaderElectionRunnable).NeedLeaderElection() {
			t.Error("it runs in the leader only")
		}
		if err := inner.added[0].Start(t.Context()); err == nil || err.Error() != "over" || loop.runs != 2 || where != "loop" {
			t.Errorf("ran %d times, error %v, counted at %q", loop.runs, err, where)
		}
	})
}

// Functions that controllers apply to an object before they queue it may panic: the event is lost,
// and the informer continues.
//
// Rule PANIC-1.
func TestHandlersAreGuarded(t *testing.T) {
	var said []string
	reporter := &panics.Reporter{Log: func(p *panics.Panic) { said = append(said, p.Error()) }}
	explode := func(any) { panic("boom") }
	h := guardedHandler{toolscache.ResourceEventHandlerFuncs{AddFunc: explode, UpdateFunc: func(_, o any) { explode(o) }, DeleteFunc: explode}, reporter}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "a"
	h.OnAdd(pod, true)
	h.OnUpdate(pod, pod)
	h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "default/a"})
	want := "panic in informer about *v1.Pod default/a: boom"
	if len(said) != 3 || said[0] != want || said[1] != want || !strings.Contains(said[2], "DeletedFinalStateUnknown") {
		t.Errorf("said %q", said)
	}
}

// unreadable is a collector with a fault.
type unreadable struct{}

func (unreadable) Describe(out chan<- *prometheus.Desc) {
	out <- prometheus.NewDesc("bad", "Bad.", nil, nil)
}

func (unreadable) Collect(chan<- prometheus.Metric) { panic("boom") }

// A metric that cannot be read leaves the others.
//
// Rule PANIC-1.
func TestCollectorsAreGuarded(t *testing.T) {
	registry, reporter := prometheus.NewRegistry(), &panics.Reporter{Log: func(*panics.Panic) {}}
	guarded := guardedRegistry{registry, reporter}
	guarded.MustRegister(unreadable{}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "good"}, func() float64 { return 1 }))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "good" {
		t.Errorf("%v, %v", families, err)
	}
}

// Panics are logged with their stack, and counted by their location; an event is published on the
// object that is left out.
//
// Rule PANIC-1.
func TestPanicsAreToldAndCounted(t *testing.T) {
	var lines []string
	o := Options{Provider: memory.New(memory.NewCloud(memory.Options{})), NodeClass: controllertest.NodeClassGVK(), Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	if in := o.inner(&rest.Config{}, nil); in.NewCache == nil || in.Controller.RecoverPanic == nil || !*in.Controller.RecoverPanic {
		t.Error("handlers or reconcilers do not recover")
	}
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		recoverFrom(o.Panics, e.Mirror, e.Metrics, e.Events)
		p := e.Mirror.Panics.Try("informer", "Pod default/a", func() { panic("boom") })
		if text := strings.Join(lines, "\n"); !strings.Contains(text, "default/a") || !strings.Contains(text, "TestPanicsAreToldAndCounted") {
			t.Errorf("logged %s", text)
		}
		if n := e.Counter("karve_panics_recovered_total"); n != 1 {
			t.Errorf("counted %v", n)
		}
		pod := controllertest.Pod("a", "1", "1Gi")
		e.Create(pod)
		e.Mirror.OnLeftOut(pod, p)
		synctest.Wait()
		if got := e.EventTexts("a"); len(got) != 1 || !strings.HasPrefix(got[0], "ObjectIgnored: karve decides as if this object did not exist") {
			t.Errorf("told %q", got)
		}
	})
}
