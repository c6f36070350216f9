// SPDX-License-Identifier: Apache-2.0

// Package local runs the whole of karve on one computer: a real Kubernetes
// control plane, an Azure emulator with its simulated nodes, and karve itself as
// a process of its own, wired as in a cloud: karve finds the cluster through a
// kubeconfig and Azure through HTTPS and a workload identity, and has no
// code for running locally.
//
// karve-demo and the end-to-end tests use it. It decides nothing
// and simulates nothing itself, and two runs cannot share its folder.
// All processes it starts end with it, even after SIGKILL.
package local
