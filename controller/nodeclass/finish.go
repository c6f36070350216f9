// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/azure"
)

// namesTold is how many NodeClaims an event names.
const namesTold = 5

// finish removes a class's finalizer once no NodeClaim refers to it: terminating an instance
// may still need the class.
func (r *Reconciler) finish(ctx context.Context, class *v1beta1.AKSNodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(class, v1beta1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	claims, err := r.claimsOf(ctx, class.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(claims) > 0 {
		r.waiting(class, claims)
		// The claims' deletion wakes us; this is for a watch that was missed.
		return reconcile.Result{RequeueAfter: 10 * time.Minute}, nil
	}
	stored := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, v1beta1.TerminationFinalizer)
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, class, patch); err != nil {
		return ignoreRaces(fmt.Errorf("removing the finalizer of AKSNodeClass %s: %w", class.Name, err))
	}
	return reconcile.Result{}, nil
}

// waiting reports which NodeClaims the class waits for.
func (r *Reconciler) waiting(class *v1beta1.AKSNodeClass, claims []*karpv1.NodeClaim) {
	if r.Events == nil {
		return
	}
	var names []string
	for _, c := range claims {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	more := ""
	if extra := len(names) - namesTold; extra > 0 {
		more = fmt.Sprintf(" and %d more", extra)
		names = names[:namesTold]
	}
	r.Events.Publish(events.Event{
		About: class, Reason: "WaitingOnNodeClaimTermination",
		Message: "waiting for NodeClaims to go: " + strings.Join(names, ", ") + more,
	})
}

// claimsOf lists the NodeClaims that refer to a class.
func (r *Reconciler) claimsOf(ctx context.Context, class string) ([]*karpv1.NodeClaim, error) {
	all := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, all); err != nil {
		return nil, fmt.Errorf("listing the NodeClaims of AKSNodeClass %s: %w", class, err)
	}
	var claims []*karpv1.NodeClaim
	for i := range all.Items {
		if refersTo(&all.Items[i], class) {
			claims = append(claims, &all.Items[i])
		}
	}
	return claims, nil
}

func refersTo(claim *karpv1.NodeClaim, class string) bool {
	ref := claim.Spec.NodeClassRef
	return ref != nil && ref.Group == v1beta1.Group && ref.Kind == v1beta1.Kind && ref.Name == class
}

// recordHash adds the finalizer and the hash that shows whether nodes still match the
// class. Claims stamped under another version of the formula are stamped again
// first: otherwise every node would seem to have drifted.
func (r *Reconciler) recordHash(ctx context.Context, class *v1beta1.AKSNodeClass) error {
	hash := class.Hash()
	if class.Annotations[v1beta1.AnnotationHashVersion] != v1beta1.HashVersion {
		if err := r.rehashClaims(ctx, class.Name, hash); err != nil {
			return err
		}
	}
	stored := class.DeepCopy()
	changed := controllerutil.AddFinalizer(class, v1beta1.TerminationFinalizer)
	changed = r.recordTags(class) || changed
	if changed = annotate(class, hash) || changed; !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, class, patch); err != nil {
		return fmt.Errorf("stamping AKSNodeClass %s: %w", class.Name, err)
	}
	return nil
}

// recordTags records which tags the class has, before a VM gets them: tags that the class
// loses later are recognized by that record. It reports whether there was anything new.
func (r *Reconciler) recordTags(class *v1beta1.AKSNodeClass) bool {
	keys := r.Azure.TagKeys(class)
	if len(keys) == 0 {
		return false
	}
	text, err := json.Marshal(keys)
	if err != nil || class.Annotations[azure.AnnotationTagKeys] == string(text) {
		return false // a list of strings has no error
	}
	metav1.SetMetaDataAnnotation(&class.ObjectMeta, azure.AnnotationTagKeys, string(text))
	return true
}

func (r *Reconciler) rehashClaims(ctx context.Context, class, hash string) error {
	claims, err := r.claimsOf(ctx, class)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if claim.Annotations[v1beta1.AnnotationHashVersion] == v1beta1.HashVersion {
			continue
		}
		stored, keep := claim.DeepCopy(), hash
		if kube.ConditionTrue(claim, karpv1.ConditionTypeDrifted) {
			keep = claim.Annotations[v1beta1.AnnotationHash] // it remains drifted
		}
		annotate(claim, keep)
		if err := r.Client.Patch(ctx, claim, client.MergeFrom(stored)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("stamping NodeClaim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// annotate sets the hash and its version, and reports whether that changed anything.
func annotate(o client.Object, hash string) bool {
	a := o.GetAnnotations()
	if a[v1beta1.AnnotationHash] == hash && a[v1beta1.AnnotationHashVersion] == v1beta1.HashVersion {
		return false
	}
	if a == nil {
		a = map[string]string{}
	}
	a[v1beta1.AnnotationHash], a[v1beta1.AnnotationHashVersion] = hash, v1beta1.HashVersion
	o.SetAnnotations(a)
	return true
}
