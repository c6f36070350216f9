// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// evictedByAPI is the reason that the eviction API writes on a pod (its condition
	// DisruptionTarget) before it deletes the pod.
	evictedByAPI = "EvictionByEvictionAPI"
	// eventForced is the reason of karve's event about a pod that it deleted at its node's deadline.
	eventForced = "Disrupted"
	// forcedSlack is how much earlier than it must a pod may be deleted.
	forcedSlack = 5 * time.Second
)

// evictions judges that pods leave nodes as their PodDisruptionBudgets allow, and are deleted only when
// the node's deadline leaves no more time than their own grace period (S7), which none of them loses
// before (S27).
type evictions struct {
	bench
	evicted []eviction
	deleted []deletion
}

// eviction is one that is to be judged when its PodDisruptionBudgets must have been seen.
type eviction struct {
	at    time.Time
	pod   *corev1.Pod // before it
	ready bool
}

// deletion is one by karve that was no eviction.
type deletion struct {
	at  time.Time
	uid types.UID
}

func newEvictions(b bench) *evictions { return &evictions{bench: b} }

func (j *evictions) pod(at time.Time, was *corev1.Pod, x *pod) {
	first := was != nil && was.DeletionTimestamp == nil && (x.DeletionTimestamp != nil || !x.lives())
	if first && x.Spec.NodeName != "" && wasEvicted(x.Pod) && !x.ended() && j.onManagedNode(x) {
		j.judgeGrace(at, x)
		j.evicted = append(j.evicted, eviction{at: at, pod: x.Pod, ready: podReady(was)})
	}
}

func wasEvicted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == evictedByAPI
	})
}

// onManagedNode reports whether the pod's node is karve's, or not known yet.
func (j *evictions) onManagedNode(x *pod) bool {
	n := j.cluster.nodesByName[x.Spec.NodeName]
	return n == nil || n.managed()
}

func (j *evictions) event(at time.Time, e *corev1.Event) {
	if byKarve(e) && e.Reason == eventForced && e.InvolvedObject.Kind == "Pod" {
		j.deleted = append(j.deleted, deletion{at, e.InvolvedObject.UID})
	}
}

// byKarve reports whether the event is karve's, which calls itself as Karpenter does.
func byKarve(e *corev1.Event) bool {
	return e.Source.Component == "karpenter" || e.ReportingController == "karpenter"
}

// request sees what an event may leave out: deletions of pods as they are asked for.
func (j *evictions) request(at time.Time, r Request) {
	namespace, name, ok := podOfPath(r.Resource)
	if r.Method != http.MethodDelete || !ok || !r.done() {
		return
	}
	if x := j.cluster.podsByName[namespace+"/"+name]; x != nil && (x.lives() || at.Sub(x.gone) <= j.settings.ObjectLag) {
		j.deleted = append(j.deleted, deletion{at, x.UID})
	}
}

// podOfPath reads /api/v1/namespaces/<namespace>/pods/<name>.
func podOfPath(path string) (namespace, name string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) != 6 || parts[0] != "api" || parts[2] != "namespaces" || parts[4] != "pods" {
		return "", "", false
	}
	return parts[3], parts[5], true
}

func (j *evictions) check(at time.Time) {
	j.evicted = slices.DeleteFunc(j.evicted, func(e eviction) bool {
		due := at.Sub(e.at) >= j.settings.ObjectLag
		if due {
			j.judgeEviction(e)
		}
		return due
	})
	j.deleted = slices.DeleteFunc(j.deleted, func(d deletion) bool {
		due := at.Sub(d.at) >= j.settings.ObjectLag
		if due {
			j.judgeDeletion(d)
		}
		return due
	})
}

func (j *evictions) judgeEviction(e eviction) {
	for _, b := range j.cluster.pdbs[e.pod.Namespace] {
		if b.seen.Before(e.at.Add(-j.settings.ObjectLag)) && b.selects(e.pod) && !j.allowed(b, e) {
			j.violation("S7", "pod/"+e.pod.Namespace+"/"+e.pod.Name, e.at, fmt.Sprintf("it was evicted from %s although %s allowed no disruption",
				e.pod.Spec.NodeName, b.name()))
		}
	}
}

// allowed reports whether the budget may have let the pod go at any instant of the lag: it allowed a
// disruption, had allowed this one already, or does not count pods that are not ready.
func (j *evictions) allowed(b *pdb, e eviction) bool {
	lag := j.settings.ObjectLag
	return slices.ContainsFunc(b.statuses.within(e.at.Add(-lag), e.at.Add(lag)), func(s *policyv1.PodDisruptionBudgetStatus) bool {
		_, counted := s.DisruptedPods[e.pod.Name]
		return s.DisruptionsAllowed > 0 || counted || !e.ready && (s.CurrentHealthy >= s.DesiredHealthy && s.DesiredHealthy > 0 ||
			b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow)
	})
}

// judgeGrace judges that a pod gets its grace period as long as its node's deadline leaves that (S27).
func (j *evictions) judgeGrace(at time.Time, x *pod) {
	n := j.cluster.nodesByName[x.Spec.NodeName]
	if n == nil || x.DeletionGracePeriodSeconds == nil {
		return
	}
	got := time.Duration(*x.DeletionGracePeriodSeconds) * time.Second
	deadline := j.deadline(n)
	if got < x.grace() && (deadline.IsZero() || at.Add(x.grace()+j.settings.ObjectLag).Before(deadline)) {
		j.violation("S27", x.name(), at, fmt.Sprintf("it was evicted from %s with %s of its grace period of %s, although there was time", n.name(), got, x.grace()))
	}
}

func (j *evictions) judgeDeletion(d deletion) {
	x := j.cluster.pods[d.uid]
	if x == nil || x.Spec.NodeName == "" || x.ended() {
		return
	}
	n := j.cluster.nodesByName[x.Spec.NodeName]
	if n == nil {
		return
	}
	deadline := j.deadline(n)
	if deadline.IsZero() {
		j.violation("S7", x.name(), d.at, fmt.Sprintf("karve deleted it on %s, which has no deadline: pods are evicted", n.name()))
		return
	}
	if early := deadline.Add(-x.grace()).Sub(d.at); early > forcedSlack+j.settings.ObjectLag {
		j.violation("S7", x.name(), d.at, fmt.Sprintf("karve deleted it %s before it had to, by the deadline %s of %s and its own grace period of %s",
			early.Round(time.Second), deadline.UTC().Format(time.RFC3339), n.name(), x.grace()))
	}
}

// deadline is when the node's pods must have gone, by its NodeClaim or by the Node itself, whichever is
// earlier; zero when neither has one.
func (j *evictions) deadline(n *node) time.Time {
	annotations := []map[string]string{n.Annotations}
	for _, x := range j.cluster.claims {
		if resourceKey(x.Status.ProviderID) == resourceKey(n.Spec.ProviderID) {
			annotations = append(annotations, x.Annotations)
		}
	}
	var earliest time.Time
	for _, a := range annotations {
		if at, err := time.Parse(time.RFC3339, a[karpv1.NodeClaimTerminationTimestampAnnotationKey]); err == nil && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	return earliest
}
