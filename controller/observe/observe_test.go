// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// learner records what is reported to it.
type learner struct {
	told []provider.ObservedCapacity
	err  error
}

func (l *learner) ObserveCapacity(_ context.Context, s provider.ObservedCapacity) error {
	l.told = append(l.told, s)
	return l.err
}

var class = schema.GroupKind{Group: "karpenter.azure.com", Kind: "AKSNodeClass"}

func nodeWith(memory string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}}
	n.Spec.ProviderID = "azure:///a"
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	return n
}

func claimOf(group string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelInstanceTypeStable: "D4"}}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group, Kind: class.Kind, Name: "default"}
	c.Status.ProviderID = "azure:///a"
	return c
}

// Registered nodes with a NodeClaim of the provider's own class are reported to it, by the type
// that the claim was launched with: the node's own label for its type does not count.
//
// Rule CATALOG-2.
func TestRegisteredNodesAreTold(t *testing.T) {
	registered := map[string]string{karpv1.NodeRegisteredLabelKey: "true", corev1.LabelInstanceTypeStable: "M416"}
	for name, test := range map[string]struct {
		objects []client.Object
		want    []provider.ObservedCapacity
	}{
		"ours":           {[]client.Object{nodeWith("16Gi", registered), claimOf(class.Group)}, []provider.ObservedCapacity{{Type: "D4", Memory: 16 << 30}}},
		"not registered": {[]client.Object{nodeWith("16Gi", nil), claimOf(class.Group)}, nil},
		"nobody's":       {[]client.Object{nodeWith("16Gi", registered)}, nil},
		"another's":      {[]client.Object{nodeWith("16Gi", registered), claimOf("karpenter.k8s.aws")}, nil},
		"no memory":      {[]client.Object{nodeWith("0", registered), claimOf(class.Group)}, nil},
		"gone":           {nil, nil},
	} {
		l := &learner{}
		if _, err := reconciler(t, l, test.objects...).Reconcile(t.Context(), request()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, l.told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	l := &learner{err: errors.New("not yet")}
	if _, err := reconciler(t, l, nodeWith("16Gi", registered), claimOf(class.Group)).Reconcile(t.Context(), request()); !errors.Is(err, l.err) {
		t.Errorf("a provider that cannot judge yet is not told again: %v", err)
	}
}

func request() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: "a"}}
}

func reconciler(t *testing.T, l *learner, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	version := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(version, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(scheme, version)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&karpv1.NodeClaim{}, kube.IndexClaimProviderID, func(o client.Object) []string {
			return []string{o.(*karpv1.NodeClaim).Status.ProviderID}
		}).Build()
	return &Reconciler{Client: c, Observer: l, NodeClassKind: class}
}

func TestHeartbeatsWakeNobody(t *testing.T) {
	registered := map[string]string{karpv1.NodeRegisteredLabelKey: "true"}
	for name, test := range map[string]struct {
		before, after *corev1.Node
		want          bool
	}{
		"a heartbeat":   {nodeWith("16Gi", registered), nodeWith("16384Mi", registered), false},
		"it registered": {nodeWith("16Gi", nil), nodeWith("16Gi", registered), true},
		"other memory":  {nodeWith("16Gi", registered), nodeWith("15Gi", registered), true},
	} {
		if got := telling().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s wakes: %v", name, got)
		}
	}
}
