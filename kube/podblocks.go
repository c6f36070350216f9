// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/reason"
)

// EvictionAnswer is whether the eviction API would evict a pod now, and why not. The zero value
// says that it would.
type EvictionAnswer struct {
	// RefusedBy are the names of the PodDisruptionBudgets that select the pod, sorted: the one that
	// forbids the eviction, or several, which the API does not support.
	RefusedBy []types.NamespacedName
	// ForGood is set when waiting does not help: the budgets or the number of pods must change
	// first.
	ForGood bool
	// AllowedBy is the budget that allows the eviction now, and Allowed how many it allows;
	// RefusedBy is empty then.
	AllowedBy types.NamespacedName
	Allowed   int
	// Status is the status of the budget that forbids the eviction, when it is one.
	Status policyv1.PodDisruptionBudgetStatus
}

// EvictionChecker answers whether the eviction API would evict a pod now.
type EvictionChecker interface {
	Ask(p *corev1.Pod) EvictionAnswer
}

// podSummary sums up the pods of a node for decisions about its disruption.
type podSummary struct {
	// reschedulable counts the pods that would need a new node; cost is the cost of evicting them.
	reschedulable int
	cost          float64
	shortStays    shortStays // of those
	// doNotDisrupt are the pods that forbid disruption by annotation; notEvictable are those
	// that the eviction API would not evict.
	doNotDisrupt, notEvictable []podBlock
	// pdbs are the PodDisruptionBudgets that allow pods of the node to be evicted.
	pdbs []disrupt.PDB
}

// summarize makes one pass over the pods: there are many, and they are far apart in memory.
// Without a checker, which may be nil, the eviction API refuses nothing.
func summarize(pods []*corev1.Pod, checker EvictionChecker, stays Stays, now time.Time) (all podSummary) {
	for _, p := range pods {
		if ReschedulableNow(p, now) {
			all.reschedulable++
			cost := max(0, EvictionCost(p))
			all.cost += cost
			all.shortStays.add(p, cost, stays, now)
		}
		if p.DeletionTimestamp != nil || Terminal(p) {
			continue
		}
		if DoNotDisrupt(p, now) {
			all.doNotDisrupt = append(all.doNotDisrupt, podBlock{p, annotationBlock(p)})
			continue
		}
		if checker == nil {
			continue
		}
		switch r := checker.Ask(p); {
		case !EvictableUnlessProtected(p):
		case len(r.RefusedBy) > 0:
			all.notEvictable = append(all.notEvictable, podBlock{p, evictionBlock(p, r)})
		case r.AllowedBy.Name != "":
			all.allow(p, r)
		}
	}
	return all
}

// allow records that a PodDisruptionBudget allows the pod to be evicted.
func (s *podSummary) allow(p *corev1.Pod, r EvictionAnswer) {
	name := r.AllowedBy.String()
	at := slices.IndexFunc(s.pdbs, func(b disrupt.PDB) bool { return b.Name == name })
	if at < 0 {
		at = len(s.pdbs)
		s.pdbs = append(s.pdbs, disrupt.PDB{Name: name, Allowed: r.Allowed})
	}
	s.pdbs[at].Pods = append(s.pdbs[at].Pods, string(p.UID))
}

// blocks lists the pods that block the disruption of their node: first those whose annotation
// forbids it, then those that the eviction API would not evict, by name.
func (s *podSummary) blocks() []disrupt.Block {
	return appendBlocks(appendBlocks(nil, s.doNotDisrupt), s.notEvictable)
}

type podBlock struct {
	pod   *corev1.Pod
	block disrupt.Block
}

func appendBlocks(out []disrupt.Block, more []podBlock) []disrupt.Block {
	slices.SortFunc(more, func(a, b podBlock) int {
		return cmp.Or(cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	for _, b := range more {
		out = append(out, b.block)
	}
	return out
}

func annotationBlock(p *corev1.Pod) disrupt.Block {
	b := disrupt.Block{Because: disrupt.DoNotDisrupt, ByPod: true, Facts: reason.FactsOf(map[string]any{"pod": name(p)}),
		Detail: fmt.Sprintf(`Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=%s)`, name(p))}
	b.Until = ProtectedUntil(p)
	return b
}

func evictionBlock(p *corev1.Pod, r EvictionAnswer) disrupt.Block {
	if len(r.RefusedBy) > 1 {
		return disrupt.Block{Because: disrupt.MultiplePodDisruptionBudgets, ByPod: true,
			Detail: fmt.Sprintf("Eviction does not support multiple PDBs (PodDisruptionBudget(s)=%v)", r.RefusedBy),
			Facts:  reason.FactsOf(map[string]any{"pod": name(p), "podDisruptionBudgets": names(r.RefusedBy)})}
	}
	return disrupt.Block{Because: disrupt.PodDisruptionBudget, ByPod: true,
		Detail: fmt.Sprintf("Pdb prevents pod evictions (PodDisruptionBudget=%v)", r.RefusedBy),
		Facts: reason.FactsOf(map[string]any{"pod": name(p), "podDisruptionBudgets": names(r.RefusedBy),
			"currentHealthy": int(r.Status.CurrentHealthy), "desiredHealthy": int(r.Status.DesiredHealthy), "expectedPods": int(r.Status.ExpectedPods)})}
}

func name(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

func names(of []types.NamespacedName) []string {
	out := make([]string, len(of))
	for i, n := range of {
		out[i] = n.String()
	}
	return out
}

// EvictionCost is Karpenter's estimate of the cost of evicting a pod: 1, changed by the pod's
// deletion cost and priority, from -10 to 10.
func EvictionCost(p *corev1.Pod) float64 {
	cost := 1.0
	if text, ok := p.Annotations[corev1.PodDeletionCost]; ok {
		if own, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(own) {
			cost += own / (1 << 27)
		}
	}
	if p.Spec.Priority != nil {
		cost += float64(*p.Spec.Priority) / (1 << 25)
	}
	return min(max(cost, -10), 10)
}
