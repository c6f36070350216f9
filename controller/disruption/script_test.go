// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// script decides by a fixed rule: the nodes that were there first are replaced by one node, or
// merely deleted once that one is there.
type script struct {
	e *controllertest.Env
	// by is how many nodes are launched instead; zero is one.
	by int
	// keeps is a node that the others' pods move to, so that nothing is launched.
	keeps string
	// cause of every move; off stops deciding.
	cause disrupt.Cause
	off   bool
}

func (s *script) search(snapshot *cluster.Snapshot, in disrupt.Input, _ disrupt.Cursor) disrupt.Plan {
	plan := disrupt.Plan{Done: true}
	if s.off {
		return plan
	}
	busy := map[string]bool{}
	for _, m := range in.Underway {
		for _, key := range m.Nodes {
			busy[key] = true
		}
	}
	move := disrupt.Move{Cause: s.cause, PriceBefore: 2e9}
	home := ""
	for _, n := range in.Nodes {
		switch {
		case n.MarkedForDeletion || busy[n.Key] || in.Now.Before(in.BackOffUntil[n.Key]) || len(n.Blocks) > 0:
		case s.isNew(n.Key), n.Key == s.keeps:
			if !n.Initialized.IsZero() {
				home = n.Key
			}
		default:
			move.Nodes = append(move.Nodes, n.Key)
		}
	}
	if len(move.Nodes) == 0 || len(in.Underway) > 0 {
		return plan
	}
	pods := s.podsOf(move.Nodes)
	move.Evictions = len(pods)
	if home != "" {
		move.Nominations = []schedule.Nomination{{Node: home, Pods: pods}}
	} else {
		move.Launches = schedule.StaticLaunches(snapshot, "web", max(s.by, 1))
		if len(move.Launches) == 0 {
			return plan
		}
		for i, p := range pods {
			l := &move.Launches[i%len(move.Launches)]
			l.Pods = append(l.Pods, p)
		}
		for _, l := range move.Launches {
			move.PriceAfter += l.Offerings[0].Price
		}
	}
	plan.Moves = append(plan.Moves, move)
	return plan
}

func (s *script) recheck(_ *cluster.Snapshot, in disrupt.Input, m disrupt.Move) (disrupt.Move, disrupt.Kept) {
	for _, n := range in.Nodes {
		if slices.Contains(m.Nodes, n.Key) && (n.MarkedForDeletion || n.Nominated || len(n.Blocks) > 0) {
			return m, disrupt.Kept{Key: n.Key, Because: disrupt.Nominated, Detail: "Node is nominated for a pending pod"}
		}
	}
	return m, disrupt.Kept{}
}

func (s *script) isNew(claim string) bool {
	return controllertest.Get(s.e, &karpv1.NodeClaim{}, claim).Annotations[kube.ReplacesAnnotation] != ""
}

func (s *script) podsOf(claims []string) (refs []cluster.PodRef) {
	nodes := map[string]bool{}
	for _, name := range claims {
		nodes[controllertest.Get(s.e, &karpv1.NodeClaim{}, name).Status.NodeName] = true
	}
	for _, p := range s.e.Pods() {
		if nodes[p.Spec.NodeName] && kube.ReschedulableNow(&p, time.Now()) {
			refs = append(refs, kube.Ref(&p))
		}
	}
	slices.SortFunc(refs, func(a, b cluster.PodRef) int { return int(a.Name[len(a.Name)-1]) - int(b.Name[len(b.Name)-1]) })
	return refs
}

// scripted brings up n nodes with one small pod each, and a script that decides.
func scripted(t *testing.T, n int, cause disrupt.Cause) (*controllertest.Env, *script) {
	t.Helper()
	e := controllertest.New(t, memory.Options{Create: 2 * time.Second, Delete: time.Second})
	s := &script{e: e, cause: cause, off: true}
	e.Disrupt = func(c *disruption.Options) { c.Search, c.Recheck = s.search, s.recheck }
	e.Restart()
	e.Pace = 5 * time.Second
	e.Create(controllertest.Pool("web", "30s"))
	for i := range n {
		e.Create(controllertest.Pod(fmt.Sprint("web-", i), "31", "1Gi")) // one node each
	}
	e.Until(60, "initialized nodes", func() bool {
		e.Join()
		return e.Ready() == n
	})
	for i, node := range e.Nodes() {
		old := controllertest.Get(e, &corev1.Pod{}, fmt.Sprint("web-", i))
		e.Delete(old)
		e.Create(small(i))
		e.Bind(fmt.Sprint("web-", i), node.Name)
	}
	e.Steps(6) // nominations lapse
	return e, s
}

func small(i int) *corev1.Pod { return controllertest.Pod(fmt.Sprint("web-", i), "100m", "100Mi") }

// live acts for n pods as their owner, the scheduler and kubelets: a missing pod is
// created again, and a pod without a node is bound to one that takes pods.
func live(e *controllertest.Env, n int) {
	e.Join()
	there := map[string]*corev1.Pod{}
	for _, p := range e.Pods() {
		there[p.Name] = &p
	}
	for i := range n {
		p := there[fmt.Sprint("web-", i)]
		if p == nil {
			p = small(i)
			e.Create(p)
		}
		if p.Spec.NodeName == "" {
			for _, node := range e.Nodes() {
				if open(&node) {
					e.Bind(p.Name, node.Name)
					break
				}
			}
		}
	}
}

func open(n *corev1.Node) bool {
	return len(n.Spec.Taints) == 0 && n.DeletionTimestamp == nil && n.Labels[karpv1.NodeInitializedLabelKey] == "true"
}

func isTainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == karpv1.DisruptedTaintKey })
}

// settled reports whether the cluster is one node that has all pods, with nothing
// left over of a move.
func settled(e *controllertest.Env, pods int) bool { return settledOn(e, 1, pods) }

// settledOn reports the same of so many nodes.
func settledOn(e *controllertest.Env, n, pods int) bool {
	if len(e.Claims()) != n || len(e.Nodes()) != n || len(e.Cloud.ProviderIDs()) != n || !unmarked(e) {
		return false
	}
	bound := 0
	for _, p := range e.Pods() {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	return bound == pods
}

// unmarked reports whether no claim or node is marked.
func unmarked(e *controllertest.Env) bool {
	for _, c := range e.Claims() {
		if c.Annotations[kube.MoveAnnotation] != "" || kube.ConditionTrue(&c, karpv1.ConditionTypeDisruptionReason) {
			return false
		}
	}
	return !slices.ContainsFunc(e.Nodes(), func(n corev1.Node) bool { return isTainted(&n) })
}
