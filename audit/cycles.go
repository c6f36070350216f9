// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// cycles judges that consolidation does not go around in circles (S14): while workloads and NodePools
// stay as they are, the same nodes do not come back twice. Once they may, because prices are not seen.
//
// Nodes are the same by NodePool, instance type, zone and capacity type, pods by owner and requests. The
// cluster is looked at when it is at rest: nothing is launched, disrupted or pending.
type cycles struct {
	bench
	fleet    tally // NodeClaims
	workload tally // pods that need a node
	unrest   map[types.UID]bool
	causes   map[types.UID]string

	changed bool                   // since the last look
	seen    map[uint64][]time.Time // when fleets were at rest, by their sum
	last    uint64                 // the last of them
	load    uint64                 // with that workload
}

// tally is a sum that depends on what is in it, and not on the order. The zero tally must have a map.
type tally struct {
	sum  uint64
	each map[types.UID]uint64
}

func (t *tally) set(uid types.UID, hash uint64) {
	t.sum += hash - t.each[uid]
	if hash == 0 {
		delete(t.each, uid)
		return
	}
	t.each[uid] = hash
}

func hashOf(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, parts...)
	return h.Sum64() | 1
}

func newCycles(b bench) *cycles {
	return &cycles{
		bench: b, fleet: tally{each: map[types.UID]uint64{}}, workload: tally{each: map[types.UID]uint64{}},
		unrest: map[types.UID]bool{}, causes: map[types.UID]string{}, seen: map[uint64][]time.Time{},
	}
}

func (j *cycles) claim(_ time.Time, was *karpv1.NodeClaim, x *claim) {
	j.changed = true
	if !x.lives() {
		j.fleet.set(x.UID, 0)
		delete(j.unrest, x.UID)
		delete(j.causes, x.UID)
		return
	}
	if x.says(karpv1.ConditionTypeDisruptionReason) {
		j.causes[x.UID] = x.reason(karpv1.ConditionTypeDisruptionReason)
	}
	begins := x.DeletionTimestamp != nil && (was == nil || was.DeletionTimestamp == nil)
	if cause := j.causes[x.UID]; begins && cause != string(karpv1.DisruptionReasonEmpty) && cause != string(karpv1.DisruptionReasonUnderutilized) {
		clear(j.seen) // it goes for another reason than what it costs
	}
	l := x.Labels
	j.fleet.set(x.UID, hashOf(l[karpv1.NodePoolLabelKey], l[corev1.LabelInstanceTypeStable], l[corev1.LabelTopologyZone], l[karpv1.CapacityTypeLabelKey]))
	j.rest(x.UID, x.DeletionTimestamp == nil && !x.initialized.IsZero() && !x.says(karpv1.ConditionTypeDisruptionReason))
}

func (j *cycles) rest(uid types.UID, is bool) {
	if is {
		delete(j.unrest, uid)
	} else {
		j.unrest[uid] = true
	}
}

func (j *cycles) node(_ time.Time, _ *corev1.Node, x *node) {
	j.changed = true
	j.rest(x.UID, !x.lives() || x.tainted.IsZero() && x.DeletionTimestamp == nil)
}

func (j *cycles) pod(_ time.Time, _ *corev1.Pod, x *pod) {
	if x.ownedBy("DaemonSet") || x.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return
	}
	j.changed = true
	if !x.lives() || x.ended() || x.DeletionTimestamp != nil {
		j.workload.set(x.UID, 0)
		delete(j.unrest, x.UID)
		return
	}
	owner := x.UID
	if len(x.OwnerReferences) > 0 {
		owner = x.OwnerReferences[0].UID
	}
	asks := []any{x.Namespace, owner}
	for i := range x.Spec.Containers {
		r := x.Spec.Containers[i].Resources.Requests
		asks = append(asks, r.Cpu().MilliValue(), r.Memory().Value())
	}
	j.workload.set(x.UID, hashOf(asks...))
	j.rest(x.UID, x.Spec.NodeName != "")
}

func (j *cycles) pool(time.Time, *pool) { clear(j.seen) }

func (j *cycles) disturbed(time.Time) { clear(j.seen) }

func (j *cycles) check(at time.Time) {
	if !j.changed || len(j.unrest) > 0 {
		return
	}
	j.changed = false
	if j.workload.sum != j.load {
		clear(j.seen)
		j.load = j.workload.sum
	} else if j.fleet.sum == j.last {
		return
	}
	j.last = j.fleet.sum
	maps.DeleteFunc(j.seen, func(_ uint64, times []time.Time) bool { return at.Sub(times[0]) > j.settings.CycleWindow })
	j.seen[j.fleet.sum] = append(j.seen[j.fleet.sum], at)
	if times := j.seen[j.fleet.sum]; len(times) > 2 {
		j.violation("S14", "cluster", times[0], fmt.Sprintf("the same %d nodes are there for the third time within %s, and workloads and NodePools have not changed",
			len(j.fleet.each), at.Sub(times[0]).Round(time.Second)))
		clear(j.seen)
	}
}
