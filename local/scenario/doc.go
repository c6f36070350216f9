// SPDX-License-Identifier: Apache-2.0

// Package scenario is the story the demo shows: workloads are created, karve launches
// nodes for them, Azure evicts one, a workload is scaled to 0. Each step is
// carried out on a running local.Environment, watched until it is true, and printed.
//
// It reads only what a user could see (Kubernetes objects, karve's log) and
// Azure's own list of VMs. A step that does not become true
// in time is an error that names the step.
package scenario
