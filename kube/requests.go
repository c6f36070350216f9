package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/karve-dev/karve/engine/quantity"
)

// Requests is what the scheduler counts for the pod: the larger of the running
// containers with their sidecars and the init peaks, pod-level resources,
// overhead, the larger of spec and allocated amounts during an in-place resize,
// and one slot of "pods". Missing requests are taken from limits.
func Requests(p *corev1.Pod) quantity.Amounts {
	if sum, ok := plainSum(p); ok {
		return sum
	}
	return scheduled(p)
}

// scheduled leaves the arithmetic to the scheduler's own library.
func scheduled(p *corev1.Pod) quantity.Amounts {
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

// plainSum is scheduled for the ordinary pod, at a fraction of the price: no init
// containers, pod-level resources or resize, and whole amounts, which add up as
// integers do. It reports false when the pod is not so plain.
func plainSum(p *corev1.Pod) (quantity.Amounts, bool) {
	if len(p.Spec.InitContainers) > 0 || p.Spec.Resources != nil || resized(p) {
		return nil, false
	}
	sum := make(quantity.Amounts, 4)
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		if !addWhole(sum, r.Requests, nil) || !addWhole(sum, r.Limits, r.Requests) {
			return nil, false
		}
	}
	if !addWhole(sum, p.Spec.Overhead, nil) {
		return nil, false
	}
	sum[quantity.NamePods] = 1
	return sum, true
}

func resized(p *corev1.Pod) bool {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Resources != nil {
			return true
		}
	}
	return false
}

// addWhole adds the amounts of list that except does not name. It reports false
// when one is not whole or so large that a sum could overflow.
func addWhole(sum quantity.Amounts, list, except corev1.ResourceList) bool {
	for name, q := range list {
		if _, ok := except[name]; ok {
			continue
		}
		n, ok := whole(name, &q)
		if !ok {
			return false
		}
		sum[string(name)] += n
	}
	return true
}

// large is more than any node has of anything, and so little that the sum of
// hundreds stays far below quantity.Most.
const large = 1 << 53

// whole is the amount in base units when it is a whole number of them and not
// large.
func whole(name corev1.ResourceName, q *resource.Quantity) (int64, bool) {
	n, exact := q.AsInt64()
	if name != corev1.ResourceCPU {
		return n, exact && -large < n && n < large
	}
	if exact {
		return n * 1000, -large/1000 < n && n < large/1000
	}
	// A fraction of a core, or more than 64 bits hold.
	if _, exact = q.AsScale(resource.Milli); !exact || q.CmpInt64(large/1000) > 0 || q.Sign() < 0 {
		return 0, false
	}
	return q.MilliValue(), true
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
