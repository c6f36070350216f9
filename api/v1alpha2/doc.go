// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 is the deprecated version of AKSNodeClass, still served so
// that existing manifests apply unmodified. It is v1beta1 under another version:
// the spec and status are the very same types, so no conversion is needed and
// none can lose anything. Code should read and write v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.azure.com
package v1alpha2
