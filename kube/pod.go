package kube

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/world"
)

// Pod converts a pod as it stands at a moment (duration-bound annotations lapse).
// Node is left empty while the pod is unbound, whether or not anything should be
// bought for it (see Provisionable).
func Pod(p *corev1.Pod, now time.Time) world.Pod {
	required, anyOf := affinity(&p.Spec)
	w := world.Pod{
		Ref:         Ref(p),
		Created:     p.CreationTimestamp.Time,
		Priority:    valueOr(p.Spec.Priority, 0),
		Requests:    Requests(p),
		Required:    required,
		AnyOf:       anyOf,
		Tolerations: tolerations(p.Spec.Tolerations),
		Node:        p.Spec.NodeName,
		Daemon:      ownerUID(p, "apps/v1", "DaemonSet"),
		Movable:     p.Spec.NodeName != "" && Movable(p, now),
	}
	if words := unplanned(&p.Spec); len(words) > 0 {
		w.Refused, w.RefusedDetail = reason.Unsupported, "this version does not plan for "+strings.Join(words, ", ")
	}
	return w
}

// Ref names a pod.
func Ref(p *corev1.Pod) world.Ref {
	return world.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// Requests is what the scheduler counts for the pod: the larger of the running
// containers with their sidecars and the init peaks, pod-level resources,
// overhead, the larger of spec and allocated amounts during an in-place resize,
// and one slot of "pods". Missing requests are taken from limits.
func Requests(p *corev1.Pod) quantity.Amounts {
	if lacksRequests(&p.Spec) {
		p = p.DeepCopy()
		limitsAsRequests(&p.Spec)
	}
	list := podresource.PodRequests(p, podresource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	list[corev1.ResourcePods] = asQuantity(quantity.NamePods, 1)
	return Amounts(list)
}

// lacksRequests reports whether a limit has no request of the same name. The
// API server fills those in for pods, not for the templates of DaemonSets.
func lacksRequests(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Limits {
				if _, ok := containers[i].Resources.Requests[name]; !ok {
					return true
				}
			}
		}
	}
	return false
}

func limitsAsRequests(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			for name, q := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					r.Requests[name] = q
				}
			}
		}
	}
}

// Provisionable reports whether room should be found for the pod: the scheduler
// gave up on it and nobody else is making room.
func Provisionable(p *corev1.Pod) bool {
	return p.Spec.NodeName == "" &&
		unschedulable(p) &&
		p.Status.NominatedNodeName == "" && // a preemption is under way
		p.DeletionTimestamp == nil && !Terminal(p) &&
		!OwnedByDaemonSet(p) && !Static(p)
}

func unschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// Terminal reports whether the pod has finished and holds nothing any more.
func Terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Movable reports whether a bound pod will need another home when its node goes.
// A terminating pod will not, except that the successor of a StatefulSet's pod
// takes over its identity and so its demand.
func Movable(p *corev1.Pod, now time.Time) bool {
	if Terminal(p) || OwnedByDaemonSet(p) || Static(p) || DoNotDisrupt(p, now) {
		return false
	}
	return p.DeletionTimestamp == nil || ownedBy(p, "apps/v1", "StatefulSet")
}

// DoNotDisrupt reports whether the pod's annotation asks for it to be left alone:
// "true" always does, a duration does until that long after the pod started. A
// value that cannot be read asks for nothing.
func DoNotDisrupt(p *corev1.Pod, now time.Time) bool {
	value, ok := p.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if !ok {
		return false
	}
	if value == "true" {
		return true
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return false
	}
	return p.Status.StartTime == nil || now.Before(p.Status.StartTime.Add(d))
}

// OwnedByDaemonSet reports whether a DaemonSet put the pod on its node.
func OwnedByDaemonSet(p *corev1.Pod) bool { return ownedBy(p, "apps/v1", "DaemonSet") }

// Static reports whether the pod belongs to the kubelet (mirror pods).
func Static(p *corev1.Pod) bool { return ownedBy(p, "v1", "Node") }

func ownedBy(p *corev1.Pod, apiVersion, kind string) bool {
	return ownerUID(p, apiVersion, kind) != ""
}

func ownerUID(p *corev1.Pod, apiVersion, kind string) string {
	for _, o := range p.OwnerReferences {
		if o.APIVersion == apiVersion && o.Kind == kind {
			return string(o.UID)
		}
	}
	return ""
}

// unplanned lists what the pod requires and the engine does not plan yet.
// Preferences and ScheduleAnyway are not among them: the scheduler may ignore them too.
func unplanned(spec *corev1.PodSpec) []string {
	var words []string
	say := func(when bool, what string) {
		if when {
			words = append(words, what)
		}
	}
	say(hasHardSpread(spec), "topology spread (DoNotSchedule)")
	if a := spec.Affinity; a != nil {
		say(a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "required pod affinity")
		say(a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "required pod anti-affinity")
		say(usesMatchFields(a.NodeAffinity), "node affinity by field (matchFields)")
		say(matchesNothing(a.NodeAffinity), "node affinity whose terms are all empty, which matches no node")
	}
	say(usesClaimedVolume(spec), "volumes backed by a persistent volume claim")
	say(usesHostPort(spec), "host ports")
	say(len(spec.ResourceClaims) > 0, "resource claims (dynamic resource allocation)")
	return words
}

func hasHardSpread(spec *corev1.PodSpec) bool {
	for _, c := range spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			return true
		}
	}
	return false
}

func usesMatchFields(a *corev1.NodeAffinity) bool {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, t := range a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(t.MatchFields) > 0 {
			return true
		}
	}
	return false
}

func matchesNothing(a *corev1.NodeAffinity) bool {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, t := range a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			return false
		}
	}
	return true
}

func usesClaimedVolume(spec *corev1.PodSpec) bool {
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

func usesHostPort(spec *corev1.PodSpec) bool {
	for _, c := range spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				return true
			}
		}
	}
	return false
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
