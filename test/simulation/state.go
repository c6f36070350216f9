// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
)

// objects are what the API server has, decoded. They are current at every instant: no watch brings
// them. Nobody may change what they return.
type objects struct {
	mu     sync.Mutex
	byKind map[string]map[client.ObjectKey]client.Object
}

func newObjects() *objects { return &objects{byKind: map[string]map[client.ObjectKey]client.Object{}} }

// decoded is an object with its Go type; nil for kinds that nobody here reads.
func decoded(u *unstructured.Unstructured) client.Object {
	var o client.Object
	switch u.GetKind() {
	case "Pod":
		o = &corev1.Pod{}
	case "Node":
		o = &corev1.Node{}
	case "NodeClaim":
		o = &karpv1.NodeClaim{}
	case "NodePool":
		o = &karpv1.NodePool{}
	case "ReplicaSet":
		o = &appsv1.ReplicaSet{}
	case "DaemonSet":
		o = &appsv1.DaemonSet{}
	case "AKSNodeClass":
		o = &v1beta1.AKSNodeClass{}
	case "PodDisruptionBudget":
		o = &policyv1.PodDisruptionBudget{}
	case "Event":
		o = &corev1.Event{}
	case "Lease":
		o = &coordinationv1.Lease{}
	default:
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		panic(fmt.Sprintf("decoding %s %s: %v", u.GetKind(), u.GetName(), err))
	}
	return o
}

// follow takes over a change, and returns the object before and after it.
func (x *objects) follow(was, is *unstructured.Unstructured) (before, after client.Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := is
	if u == nil {
		u = was
	}
	kind, key := u.GetKind(), client.ObjectKeyFromObject(u)
	before = x.byKind[kind][key]
	if is == nil {
		delete(x.byKind[kind], key)
		return before, nil
	}
	if after = decoded(is); after == nil {
		return nil, nil
	}
	if x.byKind[kind] == nil {
		x.byKind[kind] = map[client.ObjectKey]client.Object{}
	}
	x.byKind[kind][key] = after
	return before, after
}

// all are the objects of a kind, in the order of their names.
func all[T client.Object](x *objects, kind string) []T {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := make([]T, 0, len(x.byKind[kind]))
	for o := range maps.Values(x.byKind[kind]) {
		out = append(out, o.(T))
	}
	slices.SortFunc(out, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

func (x *objects) pods() []*corev1.Pod               { return all[*corev1.Pod](x, "Pod") }
func (x *objects) nodes() []*corev1.Node             { return all[*corev1.Node](x, "Node") }
func (x *objects) claims() []*karpv1.NodeClaim       { return all[*karpv1.NodeClaim](x, "NodeClaim") }
func (x *objects) pools() []*karpv1.NodePool         { return all[*karpv1.NodePool](x, "NodePool") }
func (x *objects) replicaSets() []*appsv1.ReplicaSet { return all[*appsv1.ReplicaSet](x, "ReplicaSet") }
func (x *objects) budgets() []*policyv1.PodDisruptionBudget {
	return all[*policyv1.PodDisruptionBudget](x, "PodDisruptionBudget")
}

// ago is how long ago something was; an hour when it never was.
func ago(t time.Time) time.Duration {
	if t.IsZero() {
		return time.Hour
	}
	return time.Since(t)
}
