// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/karve-dev/karve/engine/quantity"
)

// Requests is what the scheduler counts for the pod: the larger of the running containers with
// their sidecars and the peak of the init containers, pod-level resources, overhead, the larger
// of spec and allocated amounts during an in-place resize, and one slot of "pods". Missing
// requests are taken from limits.
func Requests(p *corev1.Pod) quantity.Amounts {
	if sum, ok := plainSum(p); ok {
		return sum.amounts()
	}
	return schedulerRequests(p)
}

// schedulerRequests computes the requests with the scheduler's own library.
func schedulerRequests(p *corev1.Pod) quantity.Amounts {
	lacks := lacksRequests(&p.Spec)
	if lacks || p.Spec.Resources != nil { // the library adds the overhead to pod-level amounts in place
		p = p.DeepCopy()
	}
	if lacks {
		limitsAsRequests(&p.Spec)
	}
	list := podresource.PodRequests(p, podresource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	list[corev1.ResourcePods] = asQuantity(quantity.NamePods, 1)
	return Amounts(list)
}

// plainSum is schedulerRequests for ordinary pods, and much faster: no init containers, no pod-level
// resources, none in the status, and whole amounts, which add up as integers do. It reports false
// when the pod is not ordinary.
func plainSum(p *corev1.Pod) (requestSum, bool) {
	var sum requestSum
	if len(p.Spec.InitContainers) > 0 || p.Spec.Resources != nil || hasStatusResources(p) {
		return sum, false
	}
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		if !sum.add(r.Requests, nil) || !sum.add(r.Limits, r.Requests) {
			return sum, false
		}
	}
	return sum, sum.add(p.Spec.Overhead, nil)
}

func hasStatusResources(p *corev1.Pod) bool {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Resources != nil {
			return true
		}
	}
	return false
}

// usual are the resources that nearly all pods request, often with no others.
var usual = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// usualAmounts are amounts of the usual resources, as a map key. A request of zero is recorded as
// named.
type usualAmounts struct {
	of    [len(usual)]int64
	named int64 // one bit for each resource
}

// requestSum is a sum of whole amounts. Looking up a few names is much faster than iterating
// over a list, and a pod that requests no other resources needs no map of its own.
type requestSum struct {
	usual  usualAmounts
	others quantity.Amounts // nil while there are none
}

// add adds the amounts of list, except the resources in except. It reports false when an amount
// is not whole or so large that a sum could overflow.
func (t *requestSum) add(list, except corev1.ResourceList) bool {
	found := 0
	for i, name := range usual {
		if found == len(list) {
			break
		}
		q, ok := list[name]
		if !ok {
			continue
		}
		found++
		if _, ok := except[name]; ok {
			continue
		}
		n, ok := whole(name, &q)
		if !ok {
			return false
		}
		t.usual.of[i] += n
		t.usual.named |= 1 << i
	}
	return found == len(list) || t.addOthers(list, except)
}

func (t *requestSum) addOthers(list, except corev1.ResourceList) bool {
	for name, q := range list {
		if _, ok := except[name]; ok || slices.Contains(usual[:], name) {
			continue
		}
		n, ok := whole(name, &q)
		if !ok {
			return false
		}
		if t.others == nil {
			t.others = quantity.Amounts{}
		}
		t.others[string(name)] += n
	}
	return true
}

// amounts is the sum with one slot of "pods".
func (t *requestSum) amounts() quantity.Amounts {
	out := make(quantity.Amounts, 4)
	for i, name := range usual {
		if t.usual.named&(1<<i) != 0 {
			out[string(name)] = t.usual.of[i]
		}
	}
	for name, n := range t.others {
		out[name] = n
	}
	out[quantity.NamePods] = 1
	return out
}

// large is more than any node has of any resource, and small enough that the sum of hundreds is
// far below quantity.Most.
const large = 1 << 53

// whole is the amount in base units; false if it is not a whole number of them, or is large.
func whole(name corev1.ResourceName, q *resource.Quantity) (int64, bool) {
	n, exact := q.AsInt64()
	if name != corev1.ResourceCPU {
		return n, exact && -large < n && n < large
	}
	if exact {
		return n * 1000, -large/1000 < n && n < large/1000
	}
	// A fraction of a core, or more than 64 bits hold.
	n = q.MilliValue()
	return n, 0 <= n && n < large && q.Cmp(*resource.NewMilliQuantity(n, resource.DecimalSI)) == 0
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
