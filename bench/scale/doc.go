// SPDX-License-Identifier: Apache-2.0

// Package scale measures the controllers' processes, karve's and upstream's, on large clusters: a
// real API server with objects that are made straight through it, and nothing else that changes
// them.
//
// Both sides get the same nodes and pods, one side after the other. Nodes differ only in who
// launched them: their provider IDs, instance types and NodeClaims are those of the side. Upstream
// is its own command with its kwok provider; karve is the command that users run, whose VMs are
// created in the Azure emulator.
package scale
