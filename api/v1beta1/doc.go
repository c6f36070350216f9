// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds AKSNodeClass of group karpenter.azure.com, the stored
// version: what every node of a class has in common (image, disk, subnet,
// kubelet and OS settings) and what karve has found out about it so far.
//
// It is wire-compatible with the class AKS users already have: same names,
// defaults, limits, labels, annotations and hash. It holds data and the few
// questions that can be answered from that data alone; it makes no requests
// and registers nothing globally.
//
// A nil field was not set by the user. Defaults are filled in by the API
// server from the schema, never here, so a zero AKSNodeClass built in Go has
// none of them.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.azure.com
package v1beta1
