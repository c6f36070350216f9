// SPDX-License-Identifier: Apache-2.0

package nodepool

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/registrationhealth"
)

// setRegistrationHealthy sets the condition NodeRegistrationHealthy by the last launches. A change
// of the pool or of its node class makes it unknown: it may have fixed the cause.
func (r *Reconciler) setRegistrationHealthy(pool *karpv1.NodePool, class int64) {
	const condition = karpv1.ConditionTypeNodeRegistrationHealthy
	had := pool.StatusConditions().Get(condition)
	if had == nil || had.ObservedGeneration != pool.Generation || pool.Status.NodeClassObservedGeneration != class {
		pool.StatusConditions().SetUnknown(condition)
		pool.Status.NodeClassObservedGeneration = class
		r.Health.Forget(pool.UID)
		return
	}
	r.Health.Resume(pool.UID, had.Status, registrationhealth.Outcome{Reason: had.Reason, Message: had.Message})
	switch verdict, why := r.Health.Status(pool.UID); verdict {
	case metav1.ConditionTrue:
		pool.StatusConditions().SetTrue(condition)
	case metav1.ConditionFalse:
		pool.StatusConditions().SetFalse(condition, why.Reason, why.Message)
	}
}
