// SPDX-License-Identifier: Apache-2.0

package nodeclass

import "github.com/karve-dev/karve/api/v1beta1"

// Whether policies of the subscription let machines of the class be. It informs and does
// not count towards Ready: a policy may be against some sizes only.
const (
	// ConditionTypeAllowedByPolicy: no policy was against the last machine.
	ConditionTypeAllowedByPolicy = "karve.dev/AllowedByPolicy"
	// ReasonDisallowedByPolicy is Azure's own code.
	ReasonDisallowedByPolicy = "RequestDisallowedByPolicy"
)

// policy tells what a policy refused, and what to do about it.
func (r *Reconciler) policy(class *v1beta1.AKSNodeClass) {
	if denial := r.Azure.PolicyDenial(class.Name); denial != "" {
		class.SetFalse(ConditionTypeAllowedByPolicy, ReasonDisallowedByPolicy, denial)
		return
	}
	class.SetTrue(ConditionTypeAllowedByPolicy)
}
