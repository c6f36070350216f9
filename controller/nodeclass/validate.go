package nodeclass

import (
	"context"
	"errors"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure"
)

// validate: what only Azure could refuse about a class is its disk encryption set.
func (r *Reconciler) validate(ctx context.Context, class *v1beta1.AKSNodeClass) {
	const condition = v1beta1.ConditionTypeValidationSucceeded
	err := r.Azure.CheckDiskEncryptionSet(ctx)
	var wrong *azure.DiskEncryptionSetError
	switch {
	case err == nil:
		class.SetTrue(condition)
	case errors.As(err, &wrong):
		class.SetFalse(condition, wrong.Reason, wrong.Detail)
	default:
		keep(class, condition, true, err)
	}
}
