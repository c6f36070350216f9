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
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// replacement returns the claim launched in place of others; nil while there is none.
func replacement(e *controllertest.Env) *karpv1.NodeClaim {
	for _, c := range e.Claims() {
		if c.Annotations[kube.ReplacesAnnotation] != "" && c.DeletionTimestamp == nil {
			return &c
		}
	}
	return nil
}

func taintedNodes(e *controllertest.Env) int {
	n := 0
	for _, node := range e.Nodes() {
		if isTainted(&node) {
			n++
		}
	}
	return n
}

// deleted reports whether some node is being deleted.
func deleted(e *controllertest.Env) bool {
	return slices.ContainsFunc(e.Claims(), func(c karpv1.NodeClaim) bool {
		return c.DeletionTimestamp != nil && c.Annotations[kube.ReplacesAnnotation] == ""
	})
}

// protect marks a pod or node as not to be disturbed.
func protect(e *controllertest.Env, o client.Object, name string) {
	e.T.Helper()
	controllertest.Get(e, o, name).SetAnnotations(map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"})
	if err := e.API.Update(context.Background(), o); err != nil {
		e.T.Fatal(err)
	}
}

// A replacement is ready before any node is deleted, and nothing more is launched
// for the pods that wait for it.
//
// Rule MOVE-1.
func TestReplacementIsReadyFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := scripted(t, 2, disrupt.Underutilized)
		e.Pace = time.Second
		s.off = false
		e.Until(20, "a replacement", func() bool { return replacement(e) != nil })
		if taintedNodes(e) != 2 {
			t.Error("a replacement was launched for nodes that still accept pods")
		}
		e.Steps(120) // its kubelet takes its time
		if deleted(e) || len(e.Claims()) != 3 {
			t.Errorf("%d claims, two nodes and a replacement that is not ready should be there", len(e.Claims()))
		}
		e.Until(60, "one node that runs everything", func() bool { live(e, 2); return settled(e, 2) })
		if got := e.Cloud.Launched(); got != 3 {
			t.Errorf("launched %d instances, two and a replacement are enough", got)
		}
	})
}

// A replacement that was initialized and has stopped answering takes no pods: the nodes wait
// until it does again, however ready the other replacements are.
//
// Rule MOVE-1.
func TestReplacementThatStoppedAnsweringIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := scripted(t, 3, disrupt.Underutilized)
		e.Pace, s.by = time.Second, 2
		s.off = false
		old := map[string]bool{}
		for _, n := range e.Nodes() {
			old[n.Name] = true
		}
		var came []string
		e.Until(60, "two replacements", func() bool {
			e.Join()
			came = nil
			for _, n := range e.Nodes() {
				if !old[n.Name] {
					came = append(came, n.Name)
					answer(e, n.Name, len(came) == 1) // the other one is late
				}
			}
			return len(came) == 2
		})
		e.Until(30, "one of them is initialized", func() bool { return e.Ready() == 4 })
		answer(e, came[0], false)
		answer(e, came[1], true)
		e.Until(30, "both were initialized", func() bool { return e.Ready() == 5 })
		e.Steps(30)
		if deleted(e) || len(e.Claims()) != 5 {
			t.Fatal("nodes were deleted while a replacement does not answer")
		}
		answer(e, came[0], true)
		e.Until(60, "two nodes that run everything", func() bool { live(e, 3); return settledOn(e, 2, 3) })
	})
}

// answer has a node's kubelet report, or none.
func answer(e *controllertest.Env, name string, does bool) {
	e.T.Helper()
	n := controllertest.Get(e, &corev1.Node{}, name)
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status = corev1.ConditionUnknown
			if does {
				c.Status = corev1.ConditionTrue
			}
		}
	}
	if err := e.API.Status().Update(context.Background(), n); err != nil {
		e.T.Fatal(err)
	}
}

// A pod that asks to be left alone saves its node whenever it does so.
//
// Rule MOVE-3.
func TestDoNotDisruptSavesNode(t *testing.T) {
	for name, ready := range map[string]func(*controllertest.Env) bool{
		"after the taint":             func(e *controllertest.Env) bool { return taintedNodes(e) == 2 },
		"while the replacement boots": func(e *controllertest.Env) bool { return replacement(e) != nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := scripted(t, 2, disrupt.Underutilized)
				e.Pace = time.Second
				s.off = false
				e.Until(20, "the moment", func() bool { return ready(e) })
				s.off = true
				protect(e, &corev1.Pod{}, "web-1")
				e.Until(60, "everything as before", func() bool {
					e.Join()
					return unmarked(e) && replacement(e) == nil && len(e.Nodes()) == 2
				})
				if deleted(e) || len(e.Pods()) != 2 {
					t.Error("a node was taken although a pod of the move asked to stay")
				}
			})
		})
	}
}

// If a replacement is deleted, or never becomes ready, the move is taken back; the nodes
// back off for a while, longer each time, also after a change of leader.
//
// Rule MOVE-4, Rule MOVE-9.
func TestReplacementThatNeverComes(t *testing.T) {
	gone := func(e *controllertest.Env) { e.Delete(replacement(e)) }
	for name, tc := range map[string]struct {
		strike func(*controllertest.Env)
		forget bool // another leader takes over after each failure
	}{
		"gone":           {strike: gone},
		"hangs":          {strike: func(e *controllertest.Env) { e.Pace = time.Minute; e.Steps(10); e.Pace = time.Second }},
		"another leader": {gone, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := scripted(t, 2, disrupt.Drifted)
				e.Pace = time.Second
				var rests []time.Duration
				const failures = "karpenter_voluntary_disruption_queue_failures_total"
				counted := 0.0
				for range 2 {
					s.off = false
					e.Until(300, "a replacement", func() bool { return replacement(e) != nil })
					s.off = true
					tc.strike(e)
					e.Until(20, "everything as before", func() bool { return unmarked(e) && replacement(e) == nil })
					failed := time.Now()
					if tc.forget {
						counted += e.Counter(failures)
						e.Restart()
					}
					s.off = false
					e.Until(300, "another try", func() bool { return taintedNodes(e) > 0 })
					rests = append(rests, time.Since(failed).Round(10*time.Second))
				}
				if rests[0] < 50*time.Second || rests[0] > 70*time.Second || rests[1] < 110*time.Second || rests[1] > 130*time.Second {
					t.Errorf("rested for %s, a minute and two were expected", rests)
				}
				if counted += e.Counter(failures); counted != 2 {
					t.Errorf("%v failures counted", counted)
				}
				if texts := strings.Join(append(e.EventTexts(e.Nodes()[0].Name), e.EventTexts(e.Claims()[0].Name)...), "\n"); !strings.Contains(texts, "DisruptionFailed: Disrupting as Drifted is taken back: replacement ") {
					t.Errorf("the owner was told:\n%s", texts)
				}
			})
		})
	}
}

// Nodes that a user deletes leave their move; the replacements launched for
// their pods are kept.
//
// Rule MOVE-5.
func TestNodeDeletedByHand(t *testing.T) {
	for name, hand := range map[string]int{"one": 1, "both": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := scripted(t, 2, disrupt.Underutilized)
				e.Pace = time.Second
				s.off = false
				e.Until(20, "a replacement", func() bool { return replacement(e) != nil })
				s.off = true
				for _, c := range e.Claims() {
					if c.Annotations[kube.MoveAnnotation] != "" && hand > 0 {
						e.Delete(&c)
						hand--
					}
				}
				e.Until(100, "one node that runs everything", func() bool { live(e, 2); return settled(e, 2) })
				if got := e.Cloud.Launched(); got != 3 {
					t.Errorf("launched %d instances, two and a replacement are enough", got)
				}
			})
		})
	}
}

// The next leader continues a move whose replacements all exist.
//
// Rule MOVE-1.
func TestNextLeaderGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := scripted(t, 2, disrupt.Drifted)
		e.Pace = time.Second
		s.off = false
		e.Until(20, "a replacement", func() bool { return replacement(e) != nil })
		s.off = true
		e.Restart()
		e.Steps(3)
		if taintedNodes(e) != 2 {
			t.Error("the move was taken back although all its replacements are there")
		}
		e.Until(60, "one node that runs everything", func() bool { live(e, 2); return settled(e, 2) })
		if got := e.Cloud.Launched(); got != 3 {
			t.Errorf("launched %d instances, two and a replacement are enough", got)
		}
	})
}

// Taints and marks that belong to no move are removed.
//
// Rule MOVE-1.
func TestStrayMarksComeOff(t *testing.T) {
	for _, mark := range []string{"nonsense", `{"id":"a","replacements":-1}`, `{"id":"a","replacements":9223372036854775807}`} {
		t.Run(mark, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { strayMarks(t, mark) }) })
	}
}

func strayMarks(t *testing.T, mark string) {
	e, _ := scripted(t, 2, disrupt.Drifted)
	node, claim := e.Nodes()[0], e.Claims()[1]
	node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	if err := e.API.Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	claim.Annotations[kube.MoveAnnotation] = mark
	if err := e.API.Update(t.Context(), &claim); err != nil {
		t.Fatal(err)
	}
	e.Steps(2)
	if !unmarked(e) || len(e.Claims()) != 2 {
		t.Error("marks without a move stay")
	}
}
