// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube/state"
)

// overdueClaims asks the API server about NodeClaims that karve has tried to create and that no watch
// has shown since. Until it says that one does not exist, the NodeClaim may be launched by then: its
// pods and its part of limits are kept for it.
type overdueClaims struct {
	live   client.Reader // past the cache, whose watch may be the reason
	mirror *state.Mirror
}

// settle releases the NodeClaims that do not exist. It asks again for those about which the API server
// gives no answer, and a minute later for those that exist.
func (o overdueClaims) settle(ctx context.Context) error {
	var errs []error
	for _, name := range o.mirror.OverdueClaims() {
		err := o.live.Get(ctx, client.ObjectKey{Name: name}, &karpv1.NodeClaim{})
		switch {
		case err == nil:
			o.mirror.KeepClaim(name)
		case apierrors.IsNotFound(err):
			o.mirror.ReleaseClaim(name)
		default:
			errs = append(errs, fmt.Errorf("asking whether nodeclaim %s was created: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
