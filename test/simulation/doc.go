// SPDX-License-Identifier: Apache-2.0

// Package simulation lives hours of a cluster in virtual time, with the whole of karve in it: its
// manager with all controllers, real informers and clients, the real provider for Azure.
//
// Around it stand an API server in memory (test/kubeapi), an emulated Azure whose VMs run their
// bootstrap scripts, and what a cluster does by itself: a scheduler, kubelets that take their time,
// the controllers of workloads, budgets, Nodes and owners. A seed decides what users want, what goes
// wrong, and when; Faults are all that can, of which each can also be had alone, or with one other
// (flags -every, -fault, -pairs, -seed). It does not decide in what order goroutines run that are due
// at the same instant.
//
// Every request of karve's is held against the role that it has in a cluster, and one test makes sure
// that the role permits nothing else.
package simulation
