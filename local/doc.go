// SPDX-License-Identifier: Apache-2.0

// Package local runs the whole of karve on one machine: a real Kubernetes
// control plane, an Azure emulator with its simulated nodes, and karve itself as
// a process of its own, wired as in a cloud: karve finds the cluster through a
// kubeconfig and Azure through HTTPS and a workload identity, and knows nothing
// of being local.
//
// It is what karve-demo and the end-to-end tests stand on. It decides nothing
// and simulates nothing itself, and it refuses to share its folder with a second
// run. Nothing it starts outlives it, even after SIGKILL.
package local
