// SPDX-License-Identifier: Apache-2.0

package nodeclass

import "github.com/karve-dev/karve/api/v1beta1"

// The condition about policies of the subscription that deny VMs of the class. It informs and does
// not count towards Ready: a policy may deny some sizes only.
const (
	// ConditionTypeAllowedByPolicy: no policy denied the last VM.
	ConditionTypeAllowedByPolicy = "karve.dev/AllowedByPolicy"
	// ReasonDisallowedByPolicy is Azure's own code.
	ReasonDisallowedByPolicy = "RequestDisallowedByPolicy"
)

// policy reports what a policy denied, and the next step.
func (r *Reconciler) policy(class *v1beta1.AKSNodeClass) {
	if denial := r.Azure.PolicyDenial(class.Name); denial != "" {
		class.SetFalse(ConditionTypeAllowedByPolicy, ReasonDisallowedByPolicy, denial)
		return
	}
	class.SetTrue(ConditionTypeAllowedByPolicy)
}
