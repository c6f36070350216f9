package kube

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/reason"
)

// DisruptionNode is a node as decisions about nodes see it at a given moment. soft says that the
// node's pool replaces expired nodes within budgets, like drifted ones (see SoftExpiry). Spare is
// left unset: only capacity buffers know it.
func DisruptionNode(m Machine, budgets *PodBudgets, soft bool, now time.Time) disrupt.Node {
	n := disrupt.Node{
		Key:         m.Claim.Name,
		Pool:        m.World.Pool,
		Created:     m.Claim.CreationTimestamp.Time,
		Leaving:     m.World.Leaving,
		Terminating: ConditionTrue(m.Claim, karpv1.ConditionTypeInstanceTerminating),
		Initialized: initializedAt(m),
		QuietSince:  quietSince(m),
		Grace:       m.Claim.Spec.TerminationGracePeriod != nil,
		Unpriced:    unpriced(m),
	}
	n.Promised = m.Promised > 0
	if now.Before(m.World.NominatedUntil) {
		n.Promised, n.PromisedUntil = true, m.World.NominatedUntil
	}
	if life := m.Claim.Spec.ExpireAfter.Duration; life != nil {
		n.ExpireAfter = *life
	}
	n.Due = Dues(m.Claim, soft, now)
	if m.Node == nil {
		return n
	}
	n.Name, n.Ready = m.Node.Name, Ready(m.Node)
	all := survey(m.Pods, budgets, now)
	n.Pods, n.Cost, n.PDBs = all.movable, all.cost, all.guards
	n.Blocks = append(append(severalNodes(m), ownBlocks(m.Node)...), all.blocks()...)
	return n
}

// initializedAt is when the node became ready for pods, zero while it is not. If the node is
// initialized and its claim lacks the condition, it is the Node's creation time.
func initializedAt(m Machine) time.Time {
	if !m.World.Initialized {
		return time.Time{}
	}
	if at := since(m.Claim, karpv1.ConditionTypeInitialized); !at.IsZero() {
		return at
	}
	if at := m.Node.CreationTimestamp.Time; !at.IsZero() {
		return at
	}
	return time.Unix(0, 0)
}

// since is when a condition of the claim became True, zero when it is not.
func since(c *karpv1.NodeClaim, kind string) time.Time {
	for i := range c.Status.Conditions {
		condition := &c.Status.Conditions[i]
		if condition.Type == kind && condition.Status == "True" {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// quietSince is the later of the node's initialization and its last pod event, seen by this
// process or recorded by an earlier one.
func quietSince(m Machine) time.Time {
	latest := m.Activity
	for _, t := range []time.Time{m.Claim.Status.LastPodEventTime.Time, initializedAt(m)} {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}

// unpriced says why the price of a node is not known.
func unpriced(m Machine) string {
	if m.World.Price > 0 || m.Node == nil {
		return ""
	}
	for _, key := range []string{cluster.LabelInstanceType, cluster.LabelCapacityType, cluster.LabelZone} {
		if m.World.Labels[key] == "" {
			return fmt.Sprintf("Node does not have label %q", key)
		}
	}
	if !m.KnownType {
		return fmt.Sprintf("Instance Type %q not found", m.World.Labels[cluster.LabelInstanceType])
	}
	return fmt.Sprintf("Instance Type %q has no price in zone %q as %s", m.World.Labels[cluster.LabelInstanceType],
		m.World.Labels[cluster.LabelZone], m.World.Labels[cluster.LabelCapacityType])
}

// EvictionCost is upstream's estimate of what evicting a pod costs: 1, changed by the pod's
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

// ownBlocks is the block that the node's own annotation sets.
func ownBlocks(n *corev1.Node) []disrupt.Block {
	if n.Annotations[karpv1.DoNotDisruptAnnotationKey] != "true" {
		return nil
	}
	return []disrupt.Block{{Because: disrupt.DoNotDisrupt,
		Detail: `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`}}
}

// PodBlocks lists the pods of a node that block its disruption: first those whose annotation
// forbids it, then those that the eviction API would not evict, by name.
func PodBlocks(pods []*corev1.Pod, budgets *PodBudgets, now time.Time) []disrupt.Block {
	return survey(pods, budgets, now).blocks()
}

// tenants sums up the pods of a node.
type tenants struct {
	// movable counts those that would need a new node; cost is the cost of evicting them.
	movable int
	cost    float64
	// asking forbid disruption by annotation; held would not be evicted by the eviction API.
	asking, held []podBlock
	guards       []disrupt.PDB
}

// survey makes one pass over the pods: there are many, and they are far apart in memory.
func survey(pods []*corev1.Pod, budgets *PodBudgets, now time.Time) (all tenants) {
	for _, p := range pods {
		if Movable(p, now) {
			all.movable++
			all.cost += max(0, EvictionCost(p))
		}
		if p.DeletionTimestamp != nil || Terminal(p) {
			continue
		}
		if DoNotDisrupt(p, now) {
			all.asking = append(all.asking, podBlock{p, protection(p)})
			continue
		}
		switch r := budgets.Refused(p); {
		case !Evictable(p):
		case len(r.Budgets) > 0:
			all.held = append(all.held, podBlock{p, refused(p, r)})
		case r.Guard.Name != "":
			all.guard(p, r)
		}
	}
	return all
}

// guard records that a budget lets the pod go.
func (t *tenants) guard(p *corev1.Pod, r Refusal) {
	name := r.Guard.String()
	at := slices.IndexFunc(t.guards, func(g disrupt.PDB) bool { return g.Name == name })
	if at < 0 {
		at = len(t.guards)
		t.guards = append(t.guards, disrupt.PDB{Name: name, Allowed: r.Allowed})
	}
	t.guards[at].Pods = append(t.guards[at].Pods, string(p.UID))
}

func (t tenants) blocks() []disrupt.Block {
	return appendBlocks(appendBlocks(nil, t.asking), t.held)
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

func protection(p *corev1.Pod) disrupt.Block {
	b := disrupt.Block{Because: disrupt.DoNotDisrupt, Pod: true, Facts: reason.FactsOf(map[string]any{"pod": name(p)}),
		Detail: fmt.Sprintf(`Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=%s)`, name(p))}
	b.Until = protectedUntil(p)
	return b
}

func refused(p *corev1.Pod, r Refusal) disrupt.Block {
	if len(r.Budgets) > 1 {
		return disrupt.Block{Because: disrupt.ManyBudgets, Pod: true,
			Detail: fmt.Sprintf("Eviction does not support multiple PDBs (PodDisruptionBudget(s)=%v)", r.Budgets),
			Facts:  reason.FactsOf(map[string]any{"pod": name(p), "podDisruptionBudgets": names(r.Budgets)})}
	}
	return disrupt.Block{Because: disrupt.Budgeted, Pod: true,
		Detail: fmt.Sprintf("Pdb prevents pod evictions (PodDisruptionBudget=%v)", r.Budgets),
		Facts: reason.FactsOf(map[string]any{"pod": name(p), "podDisruptionBudgets": names(r.Budgets),
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

// InvalidDoNotDisrupt returns the error in the pod's do-not-disrupt annotation, which then
// forbids nothing; nil when there is no error.
func InvalidDoNotDisrupt(p *corev1.Pod) error {
	value, ok := annotated(p)
	if !ok || value == "true" {
		return nil
	}
	_, err := protectedFor(value)
	return err
}

// protectedFor reads for how long after its start a pod is not to be disturbed.
func protectedFor(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("failed to parse %q as a duration: %w", value, err)
	}
	if d <= 0 {
		return 0, fmt.Errorf("duration %q must be positive", value)
	}
	return d, nil
}
