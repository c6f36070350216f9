// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"context"
	"errors"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure"
)

// validate checks what only Azure could refuse about a class: its disk encryption set, which is
// checked beforehand, and the errors with which Azure refused the class's VMs.
func (r *Reconciler) validate(ctx context.Context, class *v1beta1.AKSNodeClass) {
	const condition = v1beta1.ConditionTypeValidationSucceeded
	err := r.Azure.CheckDiskEncryptionSet(ctx)
	var wrong *azure.DiskEncryptionSetError
	trouble, detail := r.Azure.ClassPause(class.Name)
	switch {
	case errors.As(err, &wrong):
		class.SetFalse(condition, wrong.Reason, wrong.Detail)
	case trouble != "":
		class.SetFalse(condition, trouble, detail)
	case err == nil:
		class.SetTrue(condition)
	default:
		keep(class, condition, true, err)
	}
}
