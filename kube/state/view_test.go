// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

// requireUnlocked fails the test if an event would wait.
func requireUnlocked(t *testing.T, m *Mirror) {
	t.Helper()
	if !m.mu.TryLock() {
		t.Fatal("a decision holds the lock that events wait for")
	}
	m.mu.Unlock()
}

// While a decision runs, events, queries and records of other decisions return and take effect. The
// decision's Snapshot does not change; the next one shows them all.
//
// Rule PLAN-14.
func TestEventsDoNotWaitForDecisions(t *testing.T) {
	m := NewMirror(nil)
	addObjects(m)
	leaving, node := joined(claimNamed("leaving"))
	gone := pendingPod("gone")
	m.SetClaim(leaving)
	m.SetPod(gone, false)
	before := printedPlan(m)
	m.View(func(snapshot *cluster.Snapshot) {
		requireUnlocked(t, m)
		revision := m.Revision()
		m.SetPod(pendingPod("new"), false)
		m.SetNode(node)
		m.RemovePod(gone)
		waiting := m.CountWaiting()
		m.RecordCreatedClaim(claimNamed("created"), nil, []cluster.PodRef{kube.Ref(pendingPod("new"))})
		if m.Revision() == revision || m.CountWaiting() != waiting-1 || m.Pod("uid-new") == nil || m.Pod("uid-gone") != nil || len(m.NominatedTo("created")) != 1 {
			t.Errorf("queries do not show what happened during the decision")
		}
		if diff := cmp.Diff(before, enginetest.Print(schedule.Solve(snapshot))); diff != "" {
			t.Errorf("the Snapshot changed while a decision read it:\n%s", diff)
		}
	})
	fresh := NewMirror(nil)
	addObjects(fresh)
	fresh.SetClaim(leaving)
	fresh.SetNode(node)
	fresh.SetPod(pendingPod("new"), false)
	fresh.RecordCreatedClaim(claimNamed("created"), nil, []cluster.PodRef{kube.Ref(pendingPod("new"))})
	after := printedPlan(m)
	if diff := cmp.Diff(printedPlan(fresh), after); diff != "" || after == before {
		t.Errorf("the next decision does not see what happened during the last one:\n%s", diff)
	}
}

// Only one decision runs at a time.
func TestDecisionsExcludeEachOther(t *testing.T) {
	m := NewMirror(nil)
	m.View(func(*cluster.Snapshot) {
		if m.deciding.TryLock() {
			t.Fatal("another decision could begin")
		}
	})
	if !m.deciding.TryLock() {
		t.Fatal("no other decision could begin afterwards")
	}
}

// Whichever events come while decisions run, and however many of one object: the Snapshot is then
// that of a Mirror in which no decision ran.
//
// Rule PLAN-10, Rule PLAN-14.
func TestEventsDuringDecisionsChangeNoLaterPlan(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // virtual time: nominations of both end together
				busy, quiet := newEventful(seed), newEventful(seed)
				random := rand.New(rand.NewPCG(seed, 18))
				events := func(n int) {
					for range n {
						busy.event()
						quiet.event()
					}
				}
				for range 30 {
					events(random.IntN(6))
					if random.IntN(8) == 0 {
						busy.m.parts.builder.snapshot.inner = nil // as after a panic
					}
					busy.m.View(func(snapshot *cluster.Snapshot) {
						requireUnlocked(t, busy.m)
						before := enginetest.Print(schedule.Solve(snapshot))
						events(random.IntN(20))
						if diff := cmp.Diff(before, enginetest.Print(schedule.Solve(snapshot))); diff != "" {
							t.Fatalf("the Snapshot changed during a decision:\n%s", diff)
						}
					})
					if limit := len(busy.everSeen); len(busy.m.parts.builder.snapshot.pending) > limit {
						t.Fatalf("%d changes of %d objects are kept", len(busy.m.parts.builder.snapshot.pending), limit)
					}
					if random.IntN(3) == 0 {
						if diff := cmp.Diff(printedPlan(quiet.m), printedPlan(busy.m)); diff != "" {
							t.Fatalf("events during decisions change the plan (-alone +during):\n%s", diff)
						}
					}
				}
				if diff := cmp.Diff(known(quiet.m), known(busy.m)); diff != "" {
					t.Errorf("events during decisions change the Mirror (-alone +during):\n%s", diff)
				}
			})
		})
	}
}

// eventful is a Mirror to which random things happen, which depend on the seed alone.
type eventful struct {
	m        *Mirror
	random   *rand.Rand
	kept     map[string]any
	everSeen map[string]bool // objects, and more than those of the Snapshot
}

func newEventful(seed uint64) *eventful {
	x := &eventful{m: NewMirror(nil), random: rand.New(rand.NewPCG(seed, 19)), kept: map[string]any{}, everSeen: map[string]bool{}}
	addObjects(x.m)
	for i := range 40 { // those of addObjects
		x.everSeen[fmt.Sprint("added ", i)] = true
	}
	return x
}

// event makes one change, by an event or by the record of a decision.
func (x *eventful) event() {
	i := x.random.IntN(8)
	name := fmt.Sprint("web-", i)
	pods := []cluster.PodRef{kube.Ref(pendingPod(fmt.Sprint("p", x.random.IntN(8)))), kube.Ref(pendingPod(fmt.Sprint("p", x.random.IntN(8))))}
	for _, what := range []string{"node", "claim", "pod", "disk", "volume", "other"} {
		x.everSeen[fmt.Sprint(what, i)] = true
	}
	pool := nastyPool(fmt.Sprint("pool", i%2))
	switch n := x.random.IntN(24); n {
	case 0:
		x.m.Nominate(name, pods)
	case 1:
		x.m.RecordCreatedClaim(claimNamed(name), nil, pods)
	case 2:
		x.m.BeginMove(BeginMoveRequest{Nodes: []string{name}, Nominations: []schedule.Nomination{{Node: fmt.Sprint("web-", (i+1)%8), Pods: pods}}})
	case 3:
		x.m.CancelMove([]string{name}, []string{name})
	case 4:
		x.m.SetPool(pool)
	case 5:
		x.m.RemovePool(pool)
	case 6:
		x.m.SetVirtualPods([]string{fmt.Sprint("virtual", i)}, []cluster.Pod{virtualPod(fmt.Sprint("virtual", (i+1)%4))})
	case 7:
		x.m.SetNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": fmt.Sprint(i % 2)}}})
	case 8:
		x.m.RemoveNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	case 9:
		x.m.SetDaemon(agent(fmt.Sprint(1 + i%2)))
	case 10:
		x.m.RemoveDaemon(agent("1"))
	case 11:
		x.m.SetCatalog("default", instanceTypes(), map[string]int64{"cores": int64(4 * i)})
	case 12:
		x.m.RemoveCatalog("default")
	case 13:
		x.m.SetSettings(cluster.Settings{Preferences: []cluster.PreferencePolicy{cluster.Ignore, cluster.Respect}[i%2]})
	default:
		change(x.random, x.kept, x.m)
	}
}

func virtualPod(uid string) cluster.Pod {
	p := cluster.Pod{PodRef: cluster.PodRef{UID: uid, Name: uid, Namespace: "default"}, Virtual: true}
	p.Requests = kube.Pod(pendingPod(uid), noon).Requests
	return p
}

// Decisions and events that run at the same time share nothing that either changes.
func TestDecisionsRunBesideEvents(t *testing.T) {
	x := newEventful(1)
	stop, stopped := make(chan struct{}), sync.WaitGroup{}
	stopped.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				x.m.View(func(snapshot *cluster.Snapshot) { schedule.Solve(snapshot) })
				x.m.Tidy()
			}
		}
	})
	stopped.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				x.m.ManagedNodes()
				x.m.CountWaiting()
			}
		}
	})
	for range 3000 {
		x.event()
	}
	close(stop)
	stopped.Wait()
	before := printedPlan(x.m)
	renew(x.m)
	if diff := cmp.Diff(before, printedPlan(x.m)); diff != "" {
		t.Errorf("the Snapshot lacks changes that were made beside decisions:\n%s", diff)
	}
}

// Events that come while a new cluster.Builder is made are in it, and events do not wait for it.
//
// Rule PLAN-10, Rule MEMORY-2.
func TestEventsDuringARenewal(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			busy, quiet := newEventful(seed), newEventful(seed)
			events := func(n int) {
				for range n {
					busy.event()
					quiet.event()
				}
			}
			events(50)
			random := rand.New(rand.NewPCG(seed, 20))
			b := busy.m.parts.builder
			_, _ = b.snapshot.take()
			inner, renewed := b.update(nil, nil, &interrupted{Locker: &busy.m.mu, by: func() { events(random.IntN(3)) }})
			if !renewed {
				t.Fatal("a decision would begin without the events during the renewal")
			}
			b.snapshot.putBack(inner)
			if diff := cmp.Diff(printedPlan(quiet.m), printedPlan(busy.m)); diff != "" {
				t.Fatalf("seed %d: events during a renewal change the plan (-alone +during):\n%s", seed, diff)
			}
		})
	}
}

// interrupted is a lock that something else gets whenever it is free.
type interrupted struct {
	sync.Locker
	by func()
}

func (l *interrupted) Unlock() {
	l.Locker.Unlock()
	l.by()
}

// A decision that panics leaves nothing of what it supposed in the Snapshot of the next one, and
// nothing else is forgotten, whether or not the Mirror can list the cluster.
//
// Rule PANIC-3.
func TestDecisionThatPanics(t *testing.T) {
	m, old, home := succeeding(t)
	setCatalog(m)
	m.SetPool(nastyPool("all"))
	m.BeginEviction(old)
	m.SetPod(askedToLeave(old), false)
	waits := pendingPod("waits")
	m.SetPod(waits, false)
	before := printedPlan(m)
	m.Panics = &panics.Reporter{Log: func(*panics.Panic) {}}
	caught := m.Panics.Try("decision", "", func() {
		m.View(func(snapshot *cluster.Snapshot) {
			w := snapshot.WhatIf()
			w.RemoveNodes(snapshot.Nodes...)
			m.SetPod(ofReplicaSet(pendingPod("next")), false) // the replacement of old
			panic("boom")
		})
	})
	if caught == nil {
		t.Fatal("the panic was not reported")
	}
	if got, want := needy(m), []string{"uid-next", "uid-waits"}; !slices.Equal(got, want) {
		t.Errorf("%v need capacity, want %v: which pod replaces another is forgotten", got, want)
	}
	m.RemovePod(ofReplicaSet(pendingPod("next")))
	m.SetPod(askedToLeave(old), false)
	m.RemovePod(old)
	fresh, _, _ := succeeding(t)
	setCatalog(fresh)
	fresh.SetPool(nastyPool("all"))
	fresh.RemovePod(old)
	fresh.SetPod(waits, false)
	if diff := cmp.Diff(printedPlan(fresh), printedPlan(m)); diff != "" {
		t.Errorf("the plan differs from that of a Mirror in which no decision panicked:\n%s\nbefore: %s home %s", diff, before, home)
	}
}

// An object whose change is made only after a decision, and panics then, is left out like one with
// which the handler panics.
//
// Rule PANIC-2.
func TestPoisonThatIsWrittenLateIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		claim, node := joined(claimNamed("web-1"))
		c := watchCluster(t, m, claim, node, pendingPod("held"))
		said := poisonedBuilder(m)
		m.Nominate("web-1", []cluster.PodRef{kube.Ref(pendingPod("held"))})
		bad := pendingPod("bad")
		m.View(func(*cluster.Snapshot) {
			requireUnlocked(t, m)
			c.put(spoiltBy(bad))
			c.put(pendingPod("good"))
			synctest.Wait()
			if len(*said) > 0 {
				t.Errorf("said %q while a decision had the Snapshot", *said)
			}
		})
		if seen, want := shown(m), []string{"uid-good", "uid-held"}; !slices.Equal(seen, want) || !slices.Equal(pending(m), []string{"uid-good"}) {
			t.Errorf("the Snapshot has pods %v, of which %v are to be placed; want %v, uid-good", seen, pending(m), want)
		}
		if want := []string{"panic in mirror: boom", "panic in informer about *v1.Pod default/bad: boom", "left out: bad"}; !slices.Equal(*said, want) {
			t.Errorf("said %q, want %q", *said, want)
		}
		c.put(bad)
		synctest.Wait()
		if seen, want := shown(m), []string{"uid-bad", "uid-good", "uid-held"}; !slices.Equal(seen, want) {
			t.Errorf("it has changed: the Snapshot has pods %v, want %v", seen, want)
		}
		c.put(spoiltBy(bad))
		synctest.Wait()
		if seen, want := shown(m), []string{"uid-good", "uid-held"}; !slices.Equal(seen, want) {
			t.Errorf("it is poisoned again, and no decision runs: the Snapshot has pods %v, want %v", seen, want)
		}
	})
}

// poisonedBuilder makes the cluster.Builder of m panic with pods that have the label.
func poisonedBuilder(m *Mirror) (said *[]string) {
	said = poisoned(m)
	for _, f := range m.feeds {
		set := feedOf(m, &corev1.Pod{}, m.parts.setPod, m.parts.removePod).set
		if _, pods := f.of.(*corev1.Pod); !pods {
			continue
		}
		f.set = func(o any, listed bool) wakeups {
			n := set(o, listed)
			if x := o.(client.Object); x.GetLabels()[poison] != "" {
				m.parts.builder.snapshot.write(objectKey{"pod", string(x.GetUID())}, func(*cluster.Builder) { panic("boom") })
			}
			return n
		}
	}
	return said
}

// shown lists the pods of the Snapshot once a decision has begun.
func shown(m *Mirror) []string {
	m.View(func(*cluster.Snapshot) {})
	return keysOf(m.parts.builder.pods)
}

// pending lists the pods that a decision has to place.
func pending(m *Mirror) (uids []string) {
	m.View(func(snapshot *cluster.Snapshot) {
		for _, c := range snapshot.Classes {
			for _, p := range c.PodsToPlace {
				uids = append(uids, p.UID)
			}
		}
	})
	slices.Sort(uids)
	return uids
}

// A decision that never ends does not keep the changes of an object more than once.
//
// Rule MEMORY-2.
func TestChangesDuringADecisionAreFolded(t *testing.T) {
	m := NewMirror(nil)
	claim, node := joined(claimNamed("web-1"))
	m.SetClaim(claim)
	m.View(func(*cluster.Snapshot) {
		requireUnlocked(t, m)
		for i := range 1000 {
			p := pendingPod("a")
			p.Labels = map[string]string{"i": fmt.Sprint(i)}
			m.SetPod(p, false)
			if i%3 == 0 {
				m.RemovePod(p)
			}
			n := node.DeepCopy()
			n.Labels["i"] = fmt.Sprint(i)
			m.SetNode(n)
		}
		if n := len(m.parts.builder.snapshot.pending); n > 3 { // the pod, the claim, and the Node before it had one
			t.Errorf("%d changes of a pod and a node are kept", n)
		}
	})
	if got := pending(m); len(got) > 0 {
		t.Errorf("pods %v are to be placed, want none: the last change removed it", got)
	}
}
