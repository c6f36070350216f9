// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Group is the API group of AKSNodeClass and the domain of its labels and annotations.
	Group = "karpenter.azure.com"
	// Version is the stored version.
	Version = "v1beta1"
	// Kind is what spec.template.spec.nodeClassRef.kind of a NodePool names.
	Kind = "AKSNodeClass"
)

// AKSNodeClass describes the VMs that NodePools referring to it may get
// on AKS: image, disk, subnet, kubelet and operating system.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=aksnodeclasses,scope=Cluster,categories={karpenter,nap},shortName={aksnc,aksncs}
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether nodes can be launched from this class"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since the class was created"
// +kubebuilder:printcolumn:name="ImageFamily",type="string",JSONPath=".spec.imageFamily",priority=1,description="Operating system of the nodes"
type AKSNodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the nodes of this class are like. Fields left out are decided by
	// their default or by the controller's settings.
	// +optional
	Spec AKSNodeClassSpec `json:"spec,omitempty"`

	// status is what karve found out about the class.
	// +optional
	Status AKSNodeClassStatus `json:"status,omitempty"`
}

// AKSNodeClassList is a list of AKSNodeClasses.
//
// +kubebuilder:object:root=true
type AKSNodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AKSNodeClass `json:"items"`
}

// GroupVersion is karpenter.azure.com/v1beta1.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme makes s encode and decode this version.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &AKSNodeClass{}, &AKSNodeClassList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
