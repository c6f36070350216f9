// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// eventLaunching is the reason of karve's event about a NodeClaim that replaces others.
const eventLaunching = "DisruptionLaunching"

// records judges that users can read why (S25): a NodeClaim that replaces others has an event that says
// so, and one that is gone had at least one of karve's, about it or its Node. Who deleted a NodeClaim
// cannot be seen from outside, so more cannot be asked for.
type records struct {
	bench
	replaces overdue         // NodeClaims without their event, by UID
	silent   overdue         // those that are gone without any
	told     map[string]bool // names of NodeClaims and Nodes that an event is about
}

func newRecords(b bench) *records {
	return &records{bench: b, replaces: newOverdue(), silent: newOverdue(), told: map[string]bool{}}
}

func (j *records) claim(at time.Time, was *karpv1.NodeClaim, x *claim) {
	if was == nil && x.Annotations[annotationReplaces] != "" && (x.CreationTimestamp.IsZero() || at.Sub(x.CreationTimestamp.Time) <= j.settings.ObjectLag+time.Second) {
		j.replaces.set(string(x.UID), at, !j.told[eventLaunching+x.Name])
	}
	if x.lives() {
		return
	}
	j.replaces.set(string(x.UID), at, false)
	j.silent.set(string(x.UID), at, !j.told[x.Name] && !j.told[x.Status.NodeName])
}

func (j *records) event(at time.Time, e *corev1.Event) {
	of := e.InvolvedObject
	if !byKarve(e) || of.Kind != "NodeClaim" && of.Kind != "Node" {
		return
	}
	j.told[of.Name] = true
	if e.Reason == eventLaunching {
		j.told[eventLaunching+of.Name] = true
		j.replaces.set(string(of.UID), at, false)
	}
	for uid := range j.silent.since {
		if x := j.cluster.claims[types.UID(uid)]; x != nil && (x.Name == of.Name || x.Status.NodeName == of.Name) {
			j.silent.set(uid, at, false)
		}
	}
}

func (j *records) check(at time.Time) {
	bound := j.settings.ObjectLag + j.settings.WriteLag
	for _, uid := range j.replaces.late(at, bound) {
		if x := j.cluster.claims[types.UID(uid)]; x != nil {
			j.violation("S25", x.name(), j.replaces.since[uid], fmt.Sprintf("it replaces others (move %s), and no event says so", x.Annotations[annotationReplaces]))
		}
	}
	for _, uid := range j.silent.late(at, bound) {
		if x := j.cluster.claims[types.UID(uid)]; x != nil {
			j.violation("S25", x.name(), j.silent.since[uid], "it was deleted, and no event of karve's is about it or its Node")
		}
	}
	j.forget()
}

// forget forgets what was said of objects that are not known any more.
func (j *records) forget() {
	for uid := range j.silent.since {
		if j.cluster.claims[types.UID(uid)] == nil {
			j.silent.set(uid, time.Time{}, false)
		}
	}
	if len(j.told) <= 4*(len(j.cluster.claims)+len(j.cluster.nodes))+1000 {
		return
	}
	for name := range j.told {
		if j.cluster.claimsByName[name] == nil && j.cluster.nodesByName[name] == nil {
			delete(j.told, name)
		}
	}
}

func (j *records) disturbed(at time.Time) {
	j.replaces.disturb(at)
	j.silent.disturb(at)
}
