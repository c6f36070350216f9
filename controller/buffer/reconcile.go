// SPDX-License-Identifier: Apache-2.0

package buffer

import (
	"context"
	"fmt"
	"math"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/kube"
)

const (
	// again is the interval between reads of the replicas of the object that a buffer refers to.
	again = 30 * time.Second
	// mostChunks bounds one buffer: limits of a thousand cores over a request of a
	// milli-core would ask for a million pods.
	mostChunks = 10_000
)

// Reconciler determines the pods and the capacity of each CapacityBuffer.
type Reconciler struct {
	Client client.Client
	// Live reads past the cache: watching the pod templates of all Deployments and
	// ReplicaSets would cost far more than a read now and then.
	Live   client.Reader
	Keeper *Keeper
}

// Reconcile brings one buffer's virtual pods and status up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	b := &autoscalingv1beta1.CapacityBuffer{}
	if err := r.Client.Get(ctx, req.NamespacedName, b); err != nil {
		if apierrors.IsNotFound(err) {
			r.Keeper.drop(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if b.DeletionTimestamp != nil || !active(b) {
		r.Keeper.drop(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	stored := b.DeepCopy()
	strategy := autoscalingv1beta1.ActiveProvisioningStrategy
	b.Status.ProvisioningStrategy = &strategy
	want, err := r.resolve(ctx, b)
	if err != nil && !want.refused {
		return reconcile.Result{}, err
	}
	r.record(b, want, err)
	return write.RetryConflict(reconcile.Result{RequeueAfter: again}, write.Status(ctx, r.Client, b, stored))
}

// active reports whether the buffer is of the strategy that is served.
func active(b *autoscalingv1beta1.CapacityBuffer) bool {
	s := b.Spec.ProvisioningStrategy
	return s == nil || *s == "" || *s == autoscalingv1beta1.ActiveProvisioningStrategy
}

// record writes the outcome onto the buffer and into the Keeper.
func (r *Reconciler) record(b *autoscalingv1beta1.CapacityBuffer, w wanted, err error) {
	const condition = autoscalingv1beta1.ReadyForProvisioningCondition
	if err != nil {
		r.Keeper.drop(client.ObjectKeyFromObject(b))
		b.SetCondition(condition, metav1.ConditionFalse, w.reason, err.Error())
		return
	}
	n := chunks(b, w)
	message := "Pod template resolved successfully"
	if n > mostChunks {
		message = fmt.Sprintf("the buffer asks for %d chunks, and gets %d: use larger chunks", n, mostChunks)
		n = mostChunks
	}
	b.SetCondition(condition, metav1.ConditionTrue, "Resolved", message)
	replicas := int32(n)
	b.Status.Replicas, b.Status.PodTemplateRef, b.Status.PodTemplateGeneration = &replicas, w.ref, w.generation
	r.Keeper.set(b, w.template, int(n))
}

// wanted is what the objects that a buffer refers to ask for.
type wanted struct {
	template *corev1.PodTemplateSpec
	// scale is the replicas of the workload; 0 for a template.
	scale int32
	// ref and generation name the template, where it is one.
	ref        *autoscalingv1beta1.LocalObjectRef
	generation *int64
	// refused is set when an error is in the buffer itself; reason gives it.
	refused bool
	reason  string
}

func refusal(reason, format string, args ...any) (wanted, error) {
	return wanted{refused: true, reason: reason}, fmt.Errorf(format, args...)
}

func (r *Reconciler) resolve(ctx context.Context, b *autoscalingv1beta1.CapacityBuffer) (wanted, error) {
	switch s := b.Spec; {
	case s.PodTemplateRef != nil && s.ScalableRef != nil:
		return refusal("ResolutionFailed", "both podTemplateRef and scalableRef are set: choose one")
	case s.PodTemplateRef != nil:
		return r.template(ctx, b)
	case s.ScalableRef != nil:
		return r.workload(ctx, b)
	}
	return refusal("ResolutionFailed", "neither podTemplateRef nor scalableRef is set")
}

func (r *Reconciler) template(ctx context.Context, b *autoscalingv1beta1.CapacityBuffer) (wanted, error) {
	t := &corev1.PodTemplate{}
	key := client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.PodTemplateRef.Name}
	if err := r.Live.Get(ctx, key, t); err != nil {
		if apierrors.IsNotFound(err) {
			return refusal("PodTemplateNotFound", "the PodTemplate %s does not exist in namespace %s", key.Name, key.Namespace)
		}
		return wanted{}, fmt.Errorf("reading the pod template of capacity buffer %s: %w", b.Name, err)
	}
	return wanted{template: &t.Template, ref: &autoscalingv1beta1.LocalObjectRef{Name: t.Name}, generation: &t.Generation}, nil
}

func (r *Reconciler) workload(ctx context.Context, b *autoscalingv1beta1.CapacityBuffer) (wanted, error) {
	ref := b.Spec.ScalableRef
	if ref.APIGroup != "" && ref.APIGroup != appsv1.GroupName {
		return refusal("ResolutionFailed", "scalableRef of group %q is not served: Deployment, StatefulSet and ReplicaSet of apps are", ref.APIGroup)
	}
	var object client.Object
	var read func() (*corev1.PodTemplateSpec, *int32)
	switch ref.Kind {
	case autoscalingv1beta1.KindDeployment:
		d := &appsv1.Deployment{}
		object, read = d, func() (*corev1.PodTemplateSpec, *int32) { return &d.Spec.Template, d.Spec.Replicas }
	case autoscalingv1beta1.KindStatefulSet:
		s := &appsv1.StatefulSet{}
		object, read = s, func() (*corev1.PodTemplateSpec, *int32) { return &s.Spec.Template, s.Spec.Replicas }
	case autoscalingv1beta1.KindReplicaSet:
		s := &appsv1.ReplicaSet{}
		object, read = s, func() (*corev1.PodTemplateSpec, *int32) { return &s.Spec.Template, s.Spec.Replicas }
	default:
		return refusal("ResolutionFailed", "scalableRef of kind %q is not served: Deployment, StatefulSet and ReplicaSet are", ref.Kind)
	}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: ref.Name}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return refusal("ScalableRefNotFound", "the %s %s does not exist in namespace %s", ref.Kind, ref.Name, b.Namespace)
		}
		return wanted{}, fmt.Errorf("reading the workload of capacity buffer %s: %w", b.Name, err)
	}
	template, replicas := read()
	w := wanted{template: template, scale: 1} // the API's default
	if replicas != nil {
		w.scale = *replicas
	}
	return w, nil
}

// chunks is the larger of replicas and percentage, as far as limits allow; limits
// alone mean as many as they hold.
func chunks(b *autoscalingv1beta1.CapacityBuffer, w wanted) int64 {
	n, sized := int64(0), false
	if b.Spec.Replicas != nil {
		n, sized = int64(*b.Spec.Replicas), true
	}
	if p := b.Spec.Percentage; p != nil && w.scale > 0 && w.ref == nil {
		// Rounded up: a percentage above 0 is at least one chunk.
		share := (int64(w.scale)*int64(*p) + 99) / 100
		n, sized = max(n, share), true
	}
	limit := chunksWithinLimits(b, w)
	switch {
	case limit < 0:
		return n
	case sized:
		return min(n, limit)
	}
	return limit
}

// chunksWithinLimits is how many chunks fit into the buffer's limits; negative when they limit no
// resource that a chunk requests.
func chunksWithinLimits(b *autoscalingv1beta1.CapacityBuffer, w wanted) int64 {
	least := int64(-1)
	limits, requests := kube.Amounts(corev1.ResourceList(b.Spec.Limits)), kube.ChunkRequests(w.template)
	for name, limit := range limits {
		request := requests[name]
		if request <= 0 {
			continue
		}
		if n := max(0, limit/request); least < 0 || n < least {
			least = min(n, math.MaxInt32)
		}
	}
	return least
}

// Register adds the reconciler to a manager. Buffers are woken by their pod template.
func (r *Reconciler) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("capacitybuffer").
		For(&autoscalingv1beta1.CapacityBuffer{}).
		Watches(&corev1.PodTemplate{}, handler.EnqueueRequestsFromMapFunc(r.buffersOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(r)
}

func (r *Reconciler) buffersOf(ctx context.Context, template client.Object) []reconcile.Request {
	list := &autoscalingv1beta1.CapacityBufferList{}
	if err := r.Client.List(ctx, list, client.InNamespace(template.GetNamespace())); err != nil {
		return nil // only a cache that is stopping fails
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if ref := list.Items[i].Spec.PodTemplateRef; ref != nil && ref.Name == template.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
