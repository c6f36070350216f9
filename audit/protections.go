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

// protections judges that what is to be left alone is (S8): nodes and pods with
// karpenter.sh/do-not-disrupt, when a disruption begins and when it deletes the node; and nodes before
// their NodePool's consolidateAfter, or beyond its policy and their expireAfter, when it begins.
type protections struct {
	bench
	nodes   map[types.UID]time.Time // since when a Node is protected
	pods    map[types.UID]time.Time // since when a pod is protected where it is
	begun   []begun
	removed []removal
}

// begun is the beginning of a disruption.
type begun struct {
	at   time.Time
	node *node
	pods []types.UID // protected ones on it
}

func newProtections(b bench) *protections {
	return &protections{bench: b, nodes: map[types.UID]time.Time{}, pods: map[types.UID]time.Time{}}
}

func (j *protections) node(at time.Time, was *corev1.Node, x *node) {
	protect(j.nodes, x.UID, at, x.lives() && x.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true")
	if was != nil && !disrupted(was) && x.lives() && disrupted(x.Node) && x.DeletionTimestamp == nil && x.managed() {
		j.begun = append(j.begun, begun{at: at, node: x, pods: j.protectedOn(x, at)})
	}
}

func (j *protections) pod(at time.Time, _ *corev1.Pod, x *pod) {
	_, annotated := x.Annotations[karpv1.DoNotDisruptAnnotationKey]
	protect(j.pods, x.UID, at, annotated && x.lives() && x.Spec.NodeName != "" && !x.ended() && x.DeletionTimestamp == nil)
}

func protect(since map[types.UID]time.Time, uid types.UID, at time.Time, is bool) {
	if _, known := since[uid]; !is {
		delete(since, uid)
	} else if !known {
		since[uid] = at
	}
}

// protectedOn are the pods on the node that karve must have known to be protected then.
func (j *protections) protectedOn(n *node, at time.Time) []types.UID {
	var out []types.UID
	for uid, x := range j.cluster.podsByNode[n.Name] {
		if since, ok := j.pods[uid]; ok && at.Sub(since) >= j.settings.ObjectLag && protects(x.Pod, at) {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// protects reports whether the pod's annotation holds then: for ever, or for a duration after its start.
func protects(p *corev1.Pod, at time.Time) bool {
	value := p.Annotations[karpv1.DoNotDisruptAnnotationKey]
	lasts, err := time.ParseDuration(value)
	if err != nil {
		return value == "true"
	}
	return lasts > 0 && (p.Status.StartTime == nil || at.Before(p.Status.StartTime.Add(lasts)))
}

func (j *protections) event(at time.Time, e *corev1.Event) {
	if byKarve(e) && e.Reason == eventTerminating && e.InvolvedObject.Kind == "NodeClaim" {
		j.removed = append(j.removed, removal{at, e.InvolvedObject.UID})
	}
}

func (j *protections) check(at time.Time) {
	j.begun = slices.DeleteFunc(j.begun, func(b begun) bool {
		c := j.cluster.claimOf(b.node)
		since := at.Sub(b.at)
		reasoned := c != nil && c.says(karpv1.ConditionTypeDisruptionReason)
		due := since >= j.settings.ObjectLag && (reasoned || since >= j.settings.WriteLag)
		if due {
			j.judge(b, c)
		}
		return due
	})
	j.removed = slices.DeleteFunc(j.removed, func(r removal) bool {
		due := at.Sub(r.at) >= j.settings.ObjectLag
		if due {
			j.judgeRemoval(r)
		}
		return due
	})
}

func (j *protections) judge(b begun, c *claim) {
	if since, ok := j.nodes[b.node.UID]; ok && b.at.Sub(since) >= j.settings.ObjectLag && !since.After(b.at) {
		j.violation("S8", b.node.name(), b.at, "it was tainted to be disrupted although it has "+karpv1.DoNotDisruptAnnotationKey)
	}
	if c == nil {
		return
	}
	cause := ""
	if c.says(karpv1.ConditionTypeDisruptionReason) {
		cause = c.reason(karpv1.ConditionTypeDisruptionReason)
	}
	due := cause == string(karpv1.DisruptionReasonDrifted) || cause == causeExpired
	if forced := due && c.Spec.TerminationGracePeriod != nil; len(b.pods) > 0 && !forced && cause != "" {
		if p := j.cluster.pods[b.pods[0]]; p != nil {
			j.violation("S8", b.node.name(), b.at, fmt.Sprintf("it was tainted to be disrupted (%s) although %s on it has %s", cause, p.name(), karpv1.DoNotDisruptAnnotationKey))
		}
	}
	if why := j.tooEarly(b, c, cause); why != "" {
		j.violation("S8", b.node.name(), b.at, fmt.Sprintf("it was tainted to be disrupted (%s) although %s", cause, why))
	}
}

// tooEarly says which setting of the NodePool or NodeClaim forbade the disruption, by every spec that
// karve may have read.
func (j *protections) tooEarly(b begun, c *claim, cause string) string {
	if cause == causeExpired {
		after := c.Spec.ExpireAfter.Duration
		if after == nil {
			return "its NodeClaim never expires"
		}
		if created := c.CreationTimestamp; !created.IsZero() && b.at.Sub(created.Time) < *after-time.Second {
			return fmt.Sprintf("its NodeClaim expires after %s only", *after)
		}
		return ""
	}
	if cause != string(karpv1.DisruptionReasonEmpty) && cause != string(karpv1.DisruptionReasonUnderutilized) {
		return ""
	}
	p := j.cluster.pools[c.pool()]
	if p == nil {
		return ""
	}
	why := ""
	for _, spec := range p.specs.within(b.at.Add(-j.settings.ObjectLag), b.at) {
		if why = j.forbids(spec, b, c, cause); why == "" {
			return ""
		}
	}
	return why
}

func (j *protections) forbids(spec *karpv1.NodePoolSpec, b begun, c *claim, cause string) string {
	after := spec.Disruption.ConsolidateAfter.Duration
	quiet := c.Status.LastPodEventTime.Time
	switch {
	case spec.Replicas != nil:
		return "its NodePool is static"
	case after == nil && cause == string(karpv1.DisruptionReasonUnderutilized):
		return "its NodePool never consolidates"
	case cause == string(karpv1.DisruptionReasonUnderutilized) && spec.Disruption.ConsolidationPolicy == karpv1.ConsolidationPolicyWhenEmpty:
		return "its NodePool consolidates empty nodes only"
	case after != nil && !quiet.IsZero() && b.at.Sub(quiet) >= j.settings.ObjectLag && b.at.Sub(quiet) < *after-time.Second:
		return fmt.Sprintf("a pod came or went %s before, and consolidateAfter is %s", b.at.Sub(quiet).Round(time.Second), *after)
	}
	return ""
}

// judgeRemoval looks at the node once more, as it was when karve deleted its NodeClaim.
func (j *protections) judgeRemoval(r removal) {
	c := j.cluster.claims[r.uid]
	if c == nil || c.deleted.IsZero() {
		return
	}
	n := j.cluster.nodesByName[c.Status.NodeName]
	if n == nil {
		return
	}
	since, ok := j.nodes[n.UID]
	if ok && c.deleted.Sub(since) >= j.settings.ObjectLag && !(n.tainted.IsZero() || since.Before(n.tainted)) {
		j.violation("S8", n.name(), c.deleted, "karve deleted its NodeClaim although it has had "+karpv1.DoNotDisruptAnnotationKey+" meanwhile")
	}
}
