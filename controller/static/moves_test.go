// SPDX-License-Identifier: Apache-2.0

package static_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// mover makes the changes to claims that a move makes.
type mover struct{ *controllertest.Env }

func (m mover) annotate(claim, key, value string) {
	m.T.Helper()
	c := controllertest.Get(m.Env, &karpv1.NodeClaim{}, claim)
	if c.Annotations[key] = value; value == "" {
		delete(c.Annotations, key)
	}
	if err := m.API.Update(m.T.Context(), c); err != nil {
		m.T.Fatal(err)
	}
}

func (m mover) mark(claim, id string, replacements int) {
	m.T.Helper()
	m.annotate(claim, kube.MoveAnnotation, kube.MoveMark{ID: id, Replacements: replacements, Cause: "Drifted", Since: time.Now()}.String())
}

// replace creates a replacement: a claim like another, but new.
func (m mover) replace(like karpv1.NodeClaim, name, id string) {
	m.T.Helper()
	c := &karpv1.NodeClaim{Spec: like.Spec}
	c.Name, c.Labels, c.Finalizers = name, map[string]string{karpv1.NodePoolLabelKey: "fixed"}, like.Finalizers
	c.Annotations = map[string]string{kube.ReplacesAnnotation: id}
	m.Create(c)
}

// living lists the claims that are not being deleted.
func (m mover) living() string {
	text := ""
	for _, c := range m.Claims() {
		if c.DeletionTimestamp == nil {
			text += " " + c.Name
		}
	}
	return text
}

func (m mover) want(when, living string) {
	m.T.Helper()
	for range 40 {
		m.Step()
		m.Join()
		if got := m.living(); got != living {
			m.T.Fatalf("%s: there are%s, want%s", when, got, living)
		}
	}
}

// fixedPool makes a static pool with n nodes.
func fixedPool(t *testing.T, n int64, limit string) (mover, []karpv1.NodeClaim) {
	t.Helper()
	m := mover{controllertest.New(t, memory.Options{})}
	m.Disruption = nil // moves are scripted here
	m.Create(pool(n, limit))
	m.Until(60, "nodes", func() bool { m.Join(); return len(m.Nodes()) == int(n) })
	m.Steps(5)
	return m, m.Claims()
}

// While a node of a static pool is replaced, the pool neither launches another nor deletes
// one; when the move has ended or was cancelled, it has its number of nodes.
//
// Rule STATIC-5.
func TestMovesKeepTheNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := fixedPool(t, 3, "")
		a, b, d := c[0].Name, c[1].Name, c[2].Name
		all := fmt.Sprintf(" %s %s %s", a, b, d)
		m.mark(a, "m1", 1)
		m.want("before the replacement is created", all)
		m.Restart()
		m.Disruption = nil
		m.Feed()
		m.want("whoever leads", all)
		m.replace(c[0], "z-new", "m1")
		m.want("with the replacement", all+" z-new")
		old := controllertest.Get(m.Env, &karpv1.NodeClaim{}, a)
		m.Delete(old)
		m.want("after the move", fmt.Sprintf(" %s %s z-new", b, d))

		m.mark(b, "m2", 1)
		m.want("in another", fmt.Sprintf(" %s %s z-new", b, d))
		m.annotate(b, kube.MoveAnnotation, "")
		m.want("that was taken back", fmt.Sprintf(" %s %s z-new", b, d))

		m.annotate(b, kube.MoveAnnotation, "nonsense")
		m.want("with a mark nobody can read", fmt.Sprintf(" %s %s z-new", b, d))
	})
}

// A node that is lost during a move is launched at once, beside the replacement.
//
// Rule STATIC-5.
func TestLossDuringAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := fixedPool(t, 3, "")
		m.mark(c[0].Name, "m1", 1)
		m.Delete(&c[1])
		m.Until(60, "another", func() bool {
			m.Join()
			return len(strings.Fields(m.living())) == 3 && len(m.Claims()) == 3 && !strings.Contains(m.living(), c[1].Name)
		})
	})
}

// A replacement that a move has promised counts towards limits.nodes before it
// exists: a pool that is to grow meanwhile leaves it its place.
//
// Rule STATIC-5.
func TestMovesWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := fixedPool(t, 2, "4")
		m.mark(c[0].Name, "m1", 1)
		scale(t, m.Env, 5)
		m.Until(60, "one more", func() bool { m.Join(); return len(m.Claims()) == 3 })
		for range 40 {
			m.Step()
			if n := len(m.Claims()); n > 3 {
				t.Fatalf("%d claims and one to come, limit 4", n)
			}
		}
		m.replace(c[0], "z-new", "m1")
		for range 40 {
			m.Step()
			m.Join()
			if n := len(m.Claims()); n > 4 {
				t.Fatalf("%d claims, limit 4", n)
			}
		}
		m.Delete(controllertest.Get(m.Env, &karpv1.NodeClaim{}, c[0].Name))
		m.Until(90, "what the limit allows", func() bool { m.Join(); return len(m.Claims()) == 4 && len(m.Nodes()) == 4 })
	})
}

// Of too many nodes, a replacement that is not ready is deleted first: the replacement of a
// cancelled move is one.
//
// Rule STATIC-5.
func TestUnreadyReplacementsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := fixedPool(t, 2, "")
		m.mark(c[0].Name, "m1", 1)
		m.replace(c[0], "z-new", "m1")
		m.Steps(10) // launched, and never joins
		if !kube.ConditionTrue(controllertest.Get(m.Env, &karpv1.NodeClaim{}, "z-new"), karpv1.ConditionTypeLaunched) {
			t.Fatal("the replacement was not launched")
		}
		m.annotate(c[0].Name, kube.MoveAnnotation, "")
		m.Until(60, "two left", func() bool { return len(m.Claims()) == 2 })
		if got, want := m.living(), fmt.Sprintf(" %s %s", c[0].Name, c[1].Name); got != want {
			t.Errorf("there are%s, want%s", got, want)
		}
	})
}
