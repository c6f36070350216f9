// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// classMissing reports whether the provider does not find the claim's node class.
func classMissing(err error) bool {
	var notReady *provider.NotReadyError
	return errors.As(err, &notReady) && notReady.Reason == provider.ClassNotFound
}

// handleMissingClass deletes a claim whose node class does not exist: waiting does not help it. The
// provider reads classes from a cache, which may lack a class that was just created, so the API
// is asked first.
func (s *pass) handleMissingClass(ctx context.Context, missing error) error {
	exists, err := s.classExists(ctx)
	if err != nil || exists {
		return s.launchFailed(ctx, "NodeClassReadinessUnknown", errors.Join(missing, err))
	}
	if err := s.saveReason(ctx, provider.ClassNotFound, missing); err != nil {
		return err
	}
	s.publish("NodeClassResolutionError", fmt.Errorf("%w: create it, or correct spec.nodeClassRef of what makes the NodeClaim", missing))
	s.Log.Info("node class not found, deleting nodeclaim", "nodeclaim", s.claim.Name, "nodeclass", kube.ClassOf(s.claim.Spec.NodeClassRef))
	return s.deleteClaim(ctx, "nodeclass_not_ready")
}

// classExists asks the API, past the cache. A kind that the API does not serve has no classes.
func (s *pass) classExists(ctx context.Context) (bool, error) {
	class, name := &unstructured.Unstructured{}, kube.ClassOf(s.claim.Spec.NodeClassRef)
	class.SetGroupVersionKind(s.NodeClassGVK)
	switch err := s.Live.Get(ctx, client.ObjectKey{Name: name}, class); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading node class %q past the cache: %w", name, err)
	}
	return true, nil
}
