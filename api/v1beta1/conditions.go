// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of an AKSNodeClass.
const (
	// ConditionTypeReady sums up: nodes can be launched from this class.
	ConditionTypeReady = "Ready"
	// ConditionTypeKubernetesVersionReady: status.kubernetesVersion is known.
	ConditionTypeKubernetesVersionReady = "KubernetesVersionReady"
	// ConditionTypeImagesReady: status.images is known.
	ConditionTypeImagesReady = "ImagesReady"
	// ConditionTypeSubnetsReady: the subnet exists and nodes may join it.
	ConditionTypeSubnetsReady = "SubnetsReady"
	// ConditionTypeValidationSucceeded: what only Azure can check was checked.
	ConditionTypeValidationSucceeded = "ValidationSucceeded"
	// ConditionTypeLocalDNSReady: status.localDNSState is decided.
	ConditionTypeLocalDNSReady = "LocalDNSReady"
	// ConditionTypeFieldsSupported: every field that was set has its effect on
	// nodes. It informs and does not count towards Ready.
	ConditionTypeFieldsSupported = "karve.dev/FieldsSupported"
)

// Reasons of the conditions. A value is never renamed: people alert on it.
const (
	// ReasonAwaitingReconciliation: the controller has not looked at the object yet.
	ReasonAwaitingReconciliation = "AwaitingReconciliation"
	// ReasonReconcilingDependents: Ready is unknown because another condition is.
	ReasonReconcilingDependents = "ReconcilingDependents"
	// ReasonUnhealthyDependents: Ready is false because another condition is.
	ReasonUnhealthyDependents = "UnhealthyDependents"

	// ReasonSIGRequiredForFIPS: FIPS images need shared image galleries (use-sig).
	ReasonSIGRequiredForFIPS = "SIGRequiredForFIPS"
	// ReasonImagesNotFound: no gallery in the region has a fitting image.
	ReasonImagesNotFound = "ImagesNotFound"
	// ReasonKubernetesUpgrade: images are looked up again for a newer Kubernetes.
	ReasonKubernetesUpgrade = "KubernetesUpgrade"

	// ReasonSubnetIDInvalid: the subnet ID cannot be read or is not in the
	// cluster's virtual network.
	ReasonSubnetIDInvalid = "SubnetIDInvalid"
	// ReasonSubnetNotFound: Azure knows no such subnet.
	ReasonSubnetNotFound = "SubnetNotFound"
	// ReasonSubnetUnknownError: asking Azure about the subnet failed.
	ReasonSubnetUnknownError = "SubnetUnknownError"

	// ReasonDiskEncryptionSetRBACMissing: the controller may not read the disk
	// encryption set.
	ReasonDiskEncryptionSetRBACMissing = "DiskEncryptionSetRBACMissing"
	// ReasonCheckingClusterRequirementsFailed: whether the cluster supports local
	// DNS could not be found out.
	ReasonCheckingClusterRequirementsFailed = "CheckingClusterRequirementsFailed"
	// ReasonFieldsNotHonoured: fields that were set have no effect; the message
	// lists them.
	ReasonFieldsNotHonoured = "FieldsNotHonoured"
)

// readyNeeds lists the conditions that Ready sums up, in the order in which
// they are decided and reported.
func readyNeeds() []string {
	return []string{
		ConditionTypeKubernetesVersionReady,
		ConditionTypeImagesReady,
		ConditionTypeSubnetsReady,
		ConditionTypeValidationSucceeded,
		ConditionTypeLocalDNSReady,
	}
}

// Condition returns the condition of that type; one that was never set is
// Unknown, awaiting reconciliation.
func (c *AKSNodeClass) Condition(conditionType string) metav1.Condition {
	if cond := meta.FindStatusCondition(c.Status.Conditions, conditionType); cond != nil {
		return *cond
	}
	return metav1.Condition{
		Type:    conditionType,
		Status:  metav1.ConditionUnknown,
		Reason:  ReasonAwaitingReconciliation,
		Message: "the condition has not been looked at yet",
	}
}

// IsReady reports whether nodes can be launched from the class as it is now
// specified.
func (c *AKSNodeClass) IsReady() bool {
	ready := c.Condition(ConditionTypeReady)
	return ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == c.Generation
}

// InitConditions adds what is missing as Unknown, so that a fresh class shows
// what it waits for. It reports whether anything changed.
func (c *AKSNodeClass) InitConditions() bool {
	changed := false
	for _, t := range readyNeeds() {
		if meta.FindStatusCondition(c.Status.Conditions, t) == nil {
			changed = c.SetCondition(c.Condition(t)) || changed
		}
	}
	return changed
}

// SetTrue records that the condition holds for this generation of the spec.
func (c *AKSNodeClass) SetTrue(conditionType string) bool {
	// A condition needs a reason even when all is well; its own name is the custom.
	reason := conditionType[strings.LastIndex(conditionType, "/")+1:]
	return c.SetCondition(metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason})
}

// SetFalse records that the condition does not hold, and why.
func (c *AKSNodeClass) SetFalse(conditionType, reason, message string) bool {
	return c.SetCondition(metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message})
}

// SetUnknown records that it could not be found out whether the condition holds.
func (c *AKSNodeClass) SetUnknown(conditionType, reason, message string) bool {
	return c.SetCondition(metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message})
}

// SetCondition records one condition as seen at this generation of the spec and
// brings Ready up to date. The transition time moves only with the status. It
// reports whether anything changed.
func (c *AKSNodeClass) SetCondition(cond metav1.Condition) bool {
	cond.ObservedGeneration = c.Generation
	changed := meta.SetStatusCondition(&c.Status.Conditions, cond)
	if cond.Type == ConditionTypeReady {
		return changed
	}
	return meta.SetStatusCondition(&c.Status.Conditions, c.ready()) || changed
}

// ready sums up: one false condition makes the class not ready, else one that is
// unknown or about an older spec leaves it open.
func (c *AKSNodeClass) ready() metav1.Condition {
	ready := metav1.Condition{
		Type:               ConditionTypeReady,
		Status:             metav1.ConditionTrue,
		Reason:             ConditionTypeReady,
		ObservedGeneration: c.Generation,
	}
	var missing []string
	for _, t := range readyNeeds() {
		status := c.statusNow(t)
		switch {
		case status == metav1.ConditionTrue:
			continue
		case status == metav1.ConditionFalse:
			ready.Status, ready.Reason = metav1.ConditionFalse, ReasonUnhealthyDependents
		case ready.Status == metav1.ConditionTrue:
			ready.Status, ready.Reason = metav1.ConditionUnknown, ReasonReconcilingDependents
		}
		missing = append(missing, t+"="+string(status))
	}
	ready.Message = strings.Join(missing, ", ")
	return ready
}

// statusNow is the status of a condition as far as this generation of the spec
// goes: what was found out about an older one says nothing.
func (c *AKSNodeClass) statusNow(conditionType string) metav1.ConditionStatus {
	cond := c.Condition(conditionType)
	if cond.ObservedGeneration != c.Generation {
		return metav1.ConditionUnknown
	}
	return cond.Status
}
