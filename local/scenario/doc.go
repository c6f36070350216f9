// SPDX-License-Identifier: Apache-2.0

// Package scenario is the story the demo tells: workloads arrive, karve buys
// nodes for them, Azure evicts one, a workload is scaled to 0. Each step is
// carried out on a running local.Environment, watched until it is true, and told.
//
// It looks only at what a user could see (Kubernetes objects, karve's log) and at
// Azure's own account of what it sold. A step that does not become true
// in time is an error that names the step.
package scenario
