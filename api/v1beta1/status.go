// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AKSNodeClassStatus is what karve found out about the class.
type AKSNodeClassStatus struct {
	// images are the images new nodes can get, preferred ones first: a node gets
	// the first whose requirements its instance type meets.
	// +optional
	Images []NodeImage `json:"images,omitempty"`

	// kubernetesVersion is the version new nodes run, without a leading "v", for
	// example 1.34.2. It never goes down.
	// +optional
	KubernetesVersion *string `json:"kubernetesVersion,omitempty"`

	// conditions say whether nodes can be launched from this class (Ready), and
	// if not, what is missing.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// localDNSState says whether new nodes run the DNS cache of spec.localDNS.
	// +optional
	LocalDNSState *LocalDNSState `json:"localDNSState,omitempty"`
}

// NodeImage is one image and the instance types that it can start.
type NodeImage struct {
	// id is the resource ID of an image version, in a community gallery
	// (/CommunityGalleries/<gallery>/images/<image>/versions/<version>) or a shared
	// one (/subscriptions/<subscription>/.../versions/<version>).
	ID string `json:"id"`

	// requirements are what an instance type must meet to start from the image, such as
	// its architecture.
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// LocalDNSState is the outcome of spec.localDNS.mode: on for Required, off for
// Disabled, and for Preferred on as soon as the cluster once supported it.
// +kubebuilder:validation:Enum=Enabled;Disabled
type LocalDNSState string

const (
	LocalDNSStateEnabled  LocalDNSState = "Enabled"
	LocalDNSStateDisabled LocalDNSState = "Disabled"
)

// CurrentImages returns the images to launch from. It returns an error while
// they are not known for this generation of the spec: launching from older ones
// would launch a node that drifts at once.
func (c *AKSNodeClass) CurrentImages() ([]NodeImage, error) {
	if err := c.requireCurrent(ConditionTypeImagesReady); err != nil {
		return nil, err
	}
	return c.Status.Images, nil
}

// CurrentKubernetesVersion returns the version for new nodes. It returns an
// error while it is not known for this generation of the spec.
func (c *AKSNodeClass) CurrentKubernetesVersion() (string, error) {
	if err := c.requireCurrent(ConditionTypeKubernetesVersionReady); err != nil {
		return "", err
	}
	if c.Status.KubernetesVersion == nil || *c.Status.KubernetesVersion == "" {
		return "", fmt.Errorf("AKSNodeClass %s: status.kubernetesVersion is empty", c.Name)
	}
	return *c.Status.KubernetesVersion, nil
}

// LocalDNSEnabled reports whether new nodes run the DNS cache.
func (c *AKSNodeClass) LocalDNSEnabled() bool {
	return c.Status.LocalDNSState != nil && *c.Status.LocalDNSState == LocalDNSStateEnabled
}

func (c *AKSNodeClass) requireCurrent(conditionType string) error {
	cond := c.Condition(conditionType)
	switch {
	case cond.Status != metav1.ConditionTrue:
		return fmt.Errorf("AKSNodeClass %s: condition %s is %s: %s: %s", c.Name, conditionType, cond.Status, cond.Reason, cond.Message)
	case cond.ObservedGeneration != c.Generation:
		return fmt.Errorf("AKSNodeClass %s: condition %s is about generation %d, the spec is at %d", c.Name, conditionType, cond.ObservedGeneration, c.Generation)
	}
	return nil
}
