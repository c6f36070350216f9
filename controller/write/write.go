// SPDX-License-Identifier: Apache-2.0

// Package write writes objects that other clients may be writing too: only when
// something changed, and only over the version that was read.
//
// A write never overwrites a conflicting one: the caller reads the object again. The package has
// no types of its own.
package write

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictRetry is when to look again after a lost race: the newer version is on its way.
const conflictRetry = 100 * time.Millisecond

// Status writes the status of object, which differs from stored in nothing else.
// A deleted object needs none. A conflict is an error for which apierrors.IsConflict
// is true.
func Status(ctx context.Context, c client.Client, object, stored client.Object) error {
	if equality.Semantic.DeepEqual(stored, object) {
		return nil
	}
	name := client.ObjectKeyFromObject(stored)
	err := c.Status().Patch(ctx, object, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) == nil {
		return nil
	}
	kind, _ := c.GroupVersionKindFor(stored) // known, or there were another error
	return fmt.Errorf("writing the status of %s %s: %w", strings.ToLower(kind.Kind), strings.TrimPrefix(name.String(), "/"), err)
}

// RetryConflict turns a conflict into another try: the newer version may change the decision.
func RetryConflict(result reconcile.Result, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// IgnoreConflict returns nil for a conflict, where the object is reconciled again anyway.
func IgnoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
