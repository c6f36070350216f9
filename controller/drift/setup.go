// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// workers is many: a new image marks every claim of a cluster.
const workers = 50

// Register adds the reconciler to a manager. Claims are queued by their pool, by their node
// class, and by a provider that notices changes of instances.
func (r *Reconciler) Register(m manager.Manager) error {
	// A pool's status counts its nodes: it changes with every one of them.
	changed := lookup.SpecOrAnnotationsChanged()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(r.NodeClassGVK)
	ofClass := func(c *karpv1.NodeClaim, class string) bool { return kube.ClassOf(c.Spec.NodeClassRef) == class }
	work := builder.ControllerManagedBy(m).
		Named(Name).
		For(&karpv1.NodeClaim{}).
		Watches(&karpv1.NodePool{}, lookup.EnqueueClaimsOfPool(m.GetClient()), builder.WithPredicates(changed)).
		Watches(class, lookup.EnqueueClaimsWhere(m.GetClient(), ofClass)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if notifier, ok := r.Drifter.(provider.DriftNotifier); ok {
		l := listener{notifier, make(chan event.GenericEvent)}
		work = work.WatchesRawSource(source.Channel(l.wake, &handler.EnqueueRequestForObject{}))
		if err := m.Add(panics.Runnable{Panics: r.Panics, Where: "nodeclaim.disruption.listener", Run: l.listen}); err != nil {
			return err
		}
	}
	return work.Complete(r)
}
