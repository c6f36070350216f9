// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// reasonLasts is how long karve's word counts that a node is kept; it repeats it every 15 minutes.
const reasonLasts = 20 * time.Minute

// idle judges that empty nodes go (L7): each that is ready, that its NodePool wants to be rid of, and of
// which karve does not say why it stays. As long as the NodePool loses nodes, or its budgets allow none
// to go, others wait their turn.
type idle struct {
	bench
	empty overdue              // Nodes, by UID
	kept  map[string]time.Time // when karve said last why, by name of Node or NodeClaim
	going map[string]time.Time // when a node was disrupted last, by NodePool
}

func newIdle(b bench) *idle {
	return &idle{bench: b, empty: newOverdue(), kept: map[string]time.Time{}, going: map[string]time.Time{}}
}

func (j *idle) node(at time.Time, was *corev1.Node, x *node) {
	if was != nil && !disrupted(was) && disrupted(x.Node) {
		j.going[x.Labels[karpv1.NodePoolLabelKey]] = at
	}
	j.look(at, x)
}

func (j *idle) pod(at time.Time, _ *corev1.Pod, x *pod) {
	if n := j.cluster.nodesByName[x.Spec.NodeName]; n != nil {
		j.look(at, n)
	}
}

func (j *idle) look(at time.Time, x *node) {
	idle := x.lives() && x.managed() && x.DeletionTimestamp == nil && !disrupted(x.Node) && ready(x.Node) &&
		x.Labels[karpv1.NodeInitializedLabelKey] == "true" && x.Annotations[karpv1.DoNotDisruptAnnotationKey] != "true" &&
		len(j.cluster.waitedFor(x.Name)) == 0
	j.empty.set(string(x.UID), at, idle)
}

func (j *idle) event(at time.Time, e *corev1.Event) {
	if byKarve(e) && (e.Reason == "DisruptionBlocked" || e.Reason == "Unconsolidatable") {
		j.kept[e.InvolvedObject.Name] = at
	}
}

func (j *idle) check(at time.Time) {
	for uid, since := range j.empty.since {
		x := j.cluster.nodes[types.UID(uid)]
		if j.empty.found[uid] || at.Sub(since) <= j.settings.IdleBound {
			continue
		}
		if x == nil || j.waits(at, since, x) {
			continue
		}
		j.empty.found[uid] = true
		j.violation("L7", x.name(), since, fmt.Sprintf("it has been empty for %s, and no event says why it stays", at.Sub(since).Round(time.Second)))
	}
	for name, said := range j.kept {
		if at.Sub(said) > reasonLasts {
			delete(j.kept, name)
		}
	}
}

// waits reports whether the node has a reason to stay, or waits its turn.
func (j *idle) waits(at, since time.Time, x *node) bool {
	name := x.Labels[karpv1.NodePoolLabelKey]
	p := j.cluster.pools[name]
	if p == nil || !p.lives() || p.Spec.Replicas != nil || p.Spec.Disruption.ConsolidateAfter.Duration == nil {
		return true
	}
	if at.Sub(since) <= *p.Spec.Disruption.ConsolidateAfter.Duration+j.settings.IdleBound || at.Sub(j.going[name]) <= j.settings.IdleBound {
		return true
	}
	told := func(object string) bool { said, ok := j.kept[object]; return ok && at.Sub(said) <= reasonLasts }
	if c := j.cluster.claimOf(x); told(x.Name) || c == nil || told(c.Name) {
		return true
	}
	total := 0
	for _, n := range j.cluster.nodes {
		if n.lives() && n.Labels[karpv1.NodePoolLabelKey] == name {
			total++
		}
	}
	return allowedAt(p.Spec.Disruption.Budgets, total, string(karpv1.DisruptionReasonEmpty), at) == 0
}

func (j *idle) disturbed(at time.Time) { j.empty.disturb(at) }
