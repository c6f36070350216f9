// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
)

// stubborn is a cluster whose scheduler gives the capacity that a consolidation counts on to
// another pod, as long as it is crowded.
type stubborn struct {
	*controllertest.Env
	script  *script
	crowded bool
	workers []string // pods that the owner keeps running
	// rest is until when the pool was paused in the last decision.
	rest time.Time
}

func newStubborn(t *testing.T, cause disrupt.Cause) *stubborn {
	t.Helper()
	e, s := scripted(t, 2, cause)
	c := &stubborn{Env: e, script: s, crowded: true, workers: []string{"web-0", "web-1"}}
	decide := func(snapshot *cluster.Snapshot, in disrupt.Input, from disrupt.Cursor) disrupt.Plan {
		c.rest = in.Pools[0].ConsolidationPausedUntil
		if in.Now.Before(c.rest) {
			return disrupt.Plan{Done: true}
		}
		return s.search(snapshot, in, from)
	}
	e.Disrupt = func(d *disruption.Options) { d.Search, d.Recheck = decide, s.recheck }
	e.Restart()
	c.own()
	s.off = false
	return c
}

// own makes one owner create all pods that are created again.
func (c *stubborn) own() {
	yes := true
	for _, p := range c.Pods() {
		if len(p.OwnerReferences) > 0 || !strings.HasPrefix(p.Name, "web-") {
			continue
		}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web-uid", Controller: &yes}}
		if err := c.API.Update(context.Background(), &p); err != nil {
			c.T.Fatal(err)
		}
	}
}

// step lets owners and the scheduler do their part, then karve.
func (c *stubborn) step() {
	c.Join()
	there := map[string]corev1.Pod{}
	for _, p := range c.Pods() {
		there[p.Name] = p
	}
	for i, name := range c.workers {
		if p, ok := there[name]; !ok {
			c.Create(small(i))
		} else if p.Spec.NodeName == "" {
			c.schedule(name)
		}
	}
	c.own()
	c.crowd(there)
	c.Step()
}

// schedule binds web-1 to the first node that takes it while that is not crowded, and
// to another one otherwise.
func (c *stubborn) schedule(name string) {
	home := c.home()
	for _, n := range c.Nodes() {
		if open(&n) && (name != "web-1" || !c.crowded || n.Name != home) {
			c.Bind(name, n.Name)
			return
		}
	}
}

// home is the node that was launched in place of others.
func (c *stubborn) home() string {
	if claim := replacement(c.Env); claim != nil {
		return claim.Status.NodeName
	}
	return ""
}

// crowd fills the replacement node once it is ready, and empties it when crowded is unset.
func (c *stubborn) crowd(there map[string]corev1.Pod) {
	p, full := there["stranger"]
	switch {
	case full && !c.crowded:
		c.Delete(&p)
	case !full && c.crowded && deleted(c.Env):
		for _, n := range c.Nodes() {
			if n.Name == c.home() && open(&n) {
				c.Create(controllertest.Pod("stranger", n.Status.Allocatable.Cpu().String(), "1Mi"))
				c.Bind("stranger", n.Name)
			}
		}
	}
}

func (c *stubborn) until(steps int, what string, holds func() bool) {
	c.T.Helper()
	for range steps {
		if holds() {
			return
		}
		c.step()
	}
	c.T.Fatalf("after %d steps, still not: %s", steps, what)
}

// relapse waits for the next rest, and returns how long that is.
func (c *stubborn) relapse() time.Duration {
	c.T.Helper()
	before := c.rest
	c.until(200, "a rest", func() bool { return c.rest.After(before) })
	return time.Until(c.rest).Round(10 * time.Second)
}

// pass advances time in large steps, until the given time.
func (c *stubborn) pass(until time.Time) {
	pace := c.Pace
	c.Pace = time.Minute
	for time.Now().Before(until) {
		c.step()
	}
	c.Pace = pace
}

// A consolidation that the scheduler undoes is not made again at once, and each time
// later, also after a change of leader; after a while without that, the pauses are reset.
//
// Rule MOVE-9, Rule CONSOLIDATION-23.
func TestConsolidationThatIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStubborn(t, disrupt.Underutilized)
		var rests []time.Duration
		undone := 0.0
		for range 3 {
			rests = append(rests, c.relapse())
			until := c.rest
			undone += c.Counter("karve_consolidations_undone_total")
			c.step()
			c.Restart() // the next leader has the pause
			c.rest = time.Time{}
			c.step()
			if d := c.rest.Sub(until); d < -time.Second || d > time.Second {
				t.Errorf("the next leader rests until %s, want %s", c.rest, until)
			}
			c.pass(until)
		}
		if want := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}; !slices.Equal(rests, want) {
			t.Errorf("rested for %s, want %s", rests, want)
		}
		if undone != 3 {
			t.Errorf("%v consolidations counted as undone", undone)
		}
		texts := strings.Join(c.EventTexts("web"), "\n")
		if !strings.Contains(texts, "ConsolidationUndone: A consolidation was undone") || !strings.Contains(texts, "left alone for 2m0s") {
			t.Errorf("the pool was told:\n%s", texts)
		}

		c.crowded = false
		c.until(200, "one node that runs everything", func() bool { return settled(c.Env, 2) })
		c.pass(time.Now().Add(90 * time.Minute))
		c.crowded, c.script.off = true, true
		c.Create(controllertest.Pod("web-2", "31", "1Gi"))
		c.own()
		c.until(50, "a second node", func() bool { return c.Ready() == 2 })
		c.Delete(controllertest.Get(c.Env, &corev1.Pod{}, "web-2"))
		c.moveOver("web-1")
		c.Steps(6)
		c.script.off = false
		if got := c.relapse(); got != 30*time.Second {
			t.Errorf("rested for %s after a long time without a relapse", got)
		}
	})
}

// moveOver has a pod run on the node that replaces nothing.
func (c *stubborn) moveOver(name string) {
	c.Delete(controllertest.Get(c.Env, &corev1.Pod{}, name))
	c.Create(small(1))
	c.own()
	c.schedule(name)
}

// Owners that scale up, pods that are created long after, and nodes that must be replaced whatever
// follows do not count as undone consolidations.
//
// Rule CONSOLIDATION-23.
func TestNotEveryLaunchUndoesAConsolidation(t *testing.T) {
	for name, tc := range map[string]struct {
		cause      disrupt.Cause
		grow, late bool
	}{
		"the owner grows":           {cause: disrupt.Underutilized, grow: true},
		"its pod is made anew late": {cause: disrupt.Underutilized, late: true},
		"the nodes were due":        {cause: disrupt.Drifted},
		"nothing needs a room":      {cause: disrupt.Underutilized},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newStubborn(t, tc.cause)
				c.crowded = tc.cause == disrupt.Drifted
				c.until(100, "nodes on their way out", func() bool { return deleted(c.Env) })
				if tc.grow {
					c.until(100, "one node that runs everything", func() bool { return settled(c.Env, 2) })
					c.Create(controllertest.Pod("web-2", "31", "1Gi"))
				}
				if tc.late {
					c.until(100, "one node that runs everything", func() bool { return settled(c.Env, 2) })
					c.pass(time.Now().Add(time.Minute))
					c.workers = []string{"web-0"}
					c.Delete(controllertest.Get(c.Env, &corev1.Pod{}, "web-1"))
					c.Create(controllertest.Pod("web-2", "31", "1Gi"))
				}
				for range 40 {
					c.step()
				}
				if launched, want := c.Cloud.Launched() > 3, tc.grow || tc.late || c.crowded; launched != want {
					t.Errorf("more than two nodes and a replacement were launched: %t, want %t", launched, want)
				}
				if !c.rest.IsZero() || c.Counter("karve_consolidations_undone_total") != 0 {
					t.Error("the pool rests")
				}
			})
		})
	}
}
