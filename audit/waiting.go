// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// eventNominated and eventUnschedulable are the reasons of karve's events about pending pods: a node
	// is there or launched for the pod, or none can be.
	eventNominated     = "Nominated"
	eventUnschedulable = "FailedScheduling"
)

// waiting judges that pods for which there can be a node get one in time (L1), and that karve says of
// every pod whether there can be one (L2): its last word about the pod does.
type waiting struct {
	bench
	pending overdue // by UID
	silence overdue
	words   map[types.UID]word
}

// word is karve's last event about a pod.
type word struct {
	at     time.Time
	reason string
}

func newWaiting(b bench) *waiting {
	return &waiting{bench: b, pending: newOverdue(), silence: newOverdue(), words: map[types.UID]word{}}
}

func (j *waiting) pod(at time.Time, _ *corev1.Pod, x *pod) {
	waits := j.waits(x)
	j.pending.set(string(x.UID), at, waits && j.words[x.UID].reason != eventUnschedulable)
	j.silence.set(string(x.UID), at, waits && j.words[x.UID].reason == "")
	if !unbound(x) {
		delete(j.words, x.UID)
	}
}

// unbound reports whether the pod has no node yet. karve may have a word for it before kube-scheduler
// has looked at it.
func unbound(x *pod) bool {
	return x.lives() && x.DeletionTimestamp == nil && x.Spec.NodeName == "" && !x.ended()
}

// waits reports whether kube-scheduler finds no node for the pod, and karve is asked for one.
func (j *waiting) waits(x *pod) bool {
	return unbound(x) && len(x.Spec.SchedulingGates) == 0 &&
		!x.ownedBy("DaemonSet") && !optedOut(x.Pod) &&
		slices.ContainsFunc(x.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		})
}

// optedOut reports whether the pod runs on no node of a NodePool, by its own wish.
func optedOut(p *corev1.Pod) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return false
	}
	required := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return false
	}
	return !slices.ContainsFunc(required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == karpv1.NodePoolLabelKey && r.Operator == corev1.NodeSelectorOpDoesNotExist
		})
	})
}

func (j *waiting) event(at time.Time, e *corev1.Event) {
	if !byKarve(e) || e.InvolvedObject.Kind != "Pod" || e.Reason != eventNominated && e.Reason != eventUnschedulable {
		return
	}
	uid := e.InvolvedObject.UID
	x := j.cluster.pods[uid]
	if x != nil && !unbound(x) {
		return
	}
	before := j.words[uid]
	j.words[uid] = word{at, e.Reason}
	j.silence.set(string(uid), at, false)
	switch {
	case x == nil: // the pod is seen later
	case e.Reason == eventUnschedulable:
		j.pending.set(string(uid), at, false)
	case before.reason == eventUnschedulable:
		j.pending.restart(string(uid), at)
	}
}

func (j *waiting) check(at time.Time) {
	for _, uid := range j.pending.late(at, j.settings.PodBound) {
		x, since := j.cluster.pods[types.UID(uid)], j.pending.since[uid]
		if x == nil {
			continue
		}
		said := "karve has said nothing about it"
		if j.words[x.UID].reason == eventNominated {
			said = "karve said that it should be scheduled"
		}
		j.violation("L1", x.name(), since, fmt.Sprintf("it has waited for a node for %s, and %s", at.Sub(since).Round(time.Second), said))
	}
	for _, uid := range j.silence.late(at, j.settings.AnswerBound) {
		if x := j.cluster.pods[types.UID(uid)]; x != nil {
			j.violation("L2", x.name(), j.silence.since[uid], "kube-scheduler finds no node for it, and karve has said nothing about it")
		}
	}
	for uid, w := range j.words { // of pods that were gone before
		if j.cluster.pods[uid] == nil && at.Sub(w.at) > j.settings.Remember {
			delete(j.words, uid)
		}
	}
}

func (j *waiting) disturbed(at time.Time) {
	j.pending.disturb(at)
	j.silence.disturb(at)
}
