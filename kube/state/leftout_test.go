// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

// poison is the label of objects with which the handlers of a poisoned Mirror panic.
const poison = "poison"

// poisoned makes the Mirror's handlers panic with objects that have the label, after they have
// recorded them: the state is half changed then. It returns the reports of that.
func poisoned(m *Mirror) (said *[]string) {
	said = &[]string{}
	var mu sync.Mutex // handlers of several kinds report concurrently
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		*said = append(*said, text)
	}
	m.Panics = &panics.Reporter{Log: func(p *panics.Panic) { say(p.Error()) }}
	m.OnLeftOut = func(o client.Object, _ *panics.Panic) { say("left out: " + o.GetName()) }
	for _, f := range m.feeds {
		set, remove := f.set, f.remove
		f.set = func(o any, listed bool) wakeups { n := set(o, listed); explode(o); return n }
		f.remove = func(o any) wakeups { n := remove(o); explode(o); return n }
	}
	return said
}

func explode(o any) {
	if o.(client.Object).GetLabels()[poison] != "" {
		panic("boom")
	}
}

func spoiltBy(o client.Object) client.Object {
	o = o.DeepCopyObject().(client.Object)
	o.SetLabels(map[string]string{poison: "yes"})
	return o
}

// An object with which a handler panics is left out until it changes. Everything else continues,
// and the Mirror is as if it had never been shown the object.
//
// Rule PANIC-2.
func TestPoisonObjectIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		claim, node := joined(claimNamed("web-1"))
		held := pendingPod("held")
		c := watchCluster(t, m, claim, node, held)
		said := poisoned(m)
		m.Nominate("web-1", []cluster.PodRef{kube.Ref(held)})
		want := func(when string, waiting int, pods ...string) {
			t.Helper()
			synctest.Wait()
			m.View(func(*cluster.Snapshot) {})
			if got := keysOf(m.parts.builder.pods); !slices.Equal(got, pods) || m.CountWaiting() != waiting {
				t.Errorf("%s: the Snapshot has pods %v, %d of which wait; want %v, %d", when, got, m.CountWaiting(), pods, waiting)
			}
		}
		bad := pendingPod("bad")
		c.put(spoiltBy(bad))
		want("a pod with which the handler panics", 0, "uid-held")
		if wanted := []string{"panic in informer about *v1.Pod default/bad: boom", "left out: bad"}; !slices.Equal(*said, wanted) {
			t.Errorf("said %q, want %q", *said, wanted)
		}
		c.put(pendingPod("good"))
		want("another pod", 1, "uid-good", "uid-held")
		c.put(bad)
		want("it has changed", 2, "uid-bad", "uid-good", "uid-held")
		c.put(spoiltBy(bad))
		want("its handler panics again", 1, "uid-good", "uid-held")
		c.remove(spoiltBy(bad))
		c.remove(pendingPod("good"))
		want("it is gone", 0, "uid-held")
		if len(m.leftOut) != 0 {
			t.Errorf("something is remembered: %v", m.leftOut)
		}
	})
}

// An object with which the handler panics repeatedly is tried ever more rarely, and its newest
// version is then recorded without another event.
//
// Rule PANIC-2.
func TestPoisonObjectIsTriedRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		c := watchCluster(t, m)
		said := poisoned(m)
		for range 7200 {
			c.put(spoiltBy(pendingPod("bad")))
			time.Sleep(time.Second)
			m.DropLapsed()
		}
		if n := len(*said) / 2; n < 7 || n > 9 { // at once, again, and after 1, 2, 4, 8, 16, 32, 60 minutes
			t.Errorf("a pod that changed every second for two hours was tried %d times, want about 8", n)
		}
		c.put(pendingPod("bad"))
		synctest.Wait()
		if m.CountWaiting() != 0 {
			t.Fatal("it is not looked at for now")
		}
		time.Sleep(longestLeftOut)
		m.DropLapsed()
		if m.CountWaiting() != 1 {
			t.Error("it is never looked at again")
		}
	})
}

// A change that panics leaves the Mirror as it was: unlocked, with its nominations, with claims
// that no watch has shown yet, and with nodes that are to be deleted.
//
// Rule PANIC-1, Rule PANIC-2.
func TestMirrorIsRestoredAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		setCatalog(m)
		claim, node := joined(claimNamed("web-1"))
		old, oldNode := joined(claimNamed("old-1"))
		a, b, moves := pendingPod("a"), pendingPod("b"), boundTo(pendingPod("moves"), oldNode.Name)
		c := watchCluster(t, m, claim, node, old, oldNode, a, b, moves)
		said := poisoned(m)
		m.Nominate("web-1", []cluster.PodRef{kube.Ref(a)})
		m.RecordCreatedClaim(claimNamed("new-1"), nil, []cluster.PodRef{kube.Ref(b)})
		m.BeginMove(BeginMoveRequest{Nodes: []string{"old-1"}, NewClaims: []NewClaim{{Claim: claimNamed("new-2"), Pods: []cluster.PodRef{kube.Ref(moves)}}}})
		m.SetVirtualPods(nil, []cluster.Pod{{PodRef: cluster.PodRef{UID: "virtual"}}})
		c.put(boundTo(pendingPod("c"), node.Name))
		synctest.Wait()
		type facts struct {
			Pods, Nodes, Nominations, Departing, Activity, Unseen any
			Virtual                                               int
		}
		read := func() (out facts) {
			m.View(func(snapshot *cluster.Snapshot) {
				out = facts{m.parts.builder.pods, m.parts.builder.nodes, m.parts.nominations.nodeOf, m.parts.nodes.moving, m.parts.activity, keysOf(m.parts.nodes.unseen), virtual(snapshot)}
			})
			return out
		}
		before := read()
		m.Panics.Try("change", "", func() {
			m.change(func() wakeups {
				m.parts.pods.byUID, m.parts.builder.nodes = nil, nil // destroy the state
				panic("boom")
			})
		})
		if diff := cmp.Diff(before, read()); diff != "" {
			t.Errorf("the Mirror is not what it was (-before +after):\n%s", diff)
		}
		if len(*said) != 1 {
			t.Errorf("said %q", *said)
		}
	})
}

func virtual(snapshot *cluster.Snapshot) (n int) {
	for _, c := range snapshot.Classes {
		for _, p := range c.PodsToPlace {
			if p.UID == "virtual" {
				n++
			}
		}
	}
	return n
}

// Whichever objects are poisoned, and whenever: the rest of the Mirror equals one that was never
// shown the objects.
//
// Rule PANIC-2, Rule PLAN-10.
func TestMirrorEqualsRebuildAfterPanics(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMirror(nil)
				setCatalog(m)
				x := &monkey{Rand: rand.New(rand.NewPCG(seed, 8)), watched: watchCluster(t, m), mirror: m}
				said := poisoned(m)
				for range 30 {
					x.round()
					if o := x.draw(); x.IntN(3) == 0 {
						x.touch(spoiltBy(o))
					}
				}
				synctest.Wait()
				if len(*said) == 0 {
					t.Fatal("nothing was poisoned")
				}
				for _, o := range x.objects() {
					if o.GetLabels()[poison] != "" {
						x.remove(o)
					}
				}
				for range 30 { // longer than any object is left out
					x.settle()
					m.DropLapsed()
				}
				x.compare(t)
			})
		})
	}
}
