// SPDX-License-Identifier: Apache-2.0

// Package provisionmode names the values of --provision-mode, which karve reads and the demo
// passes on. It does not say what they mean to the provider; there is no empty mode.
package provisionmode

// The provision modes that karve has, as Karpenter spells them.
const (
	// Scriptless has Compute create VMs. It is the default.
	Scriptless = "aksscriptless"
	// Machines has AKS create VMs, one by one.
	Machines = "aksmachineapi"
	// Batches has AKS create VMs, many with one request.
	Batches = "aksmachineapiheaderbatch"
)
