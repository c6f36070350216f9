// SPDX-License-Identifier: Apache-2.0

// Package disasters tests what becomes of a cluster's VMs when Kubernetes itself is in trouble: the API
// server is away, etcd is restored to an earlier state, two processes act at once. The controllers run
// step by step in virtual time, against an API and a cloud in memory (see controllertest).
//
// It has tests only, and no types of its own.
package disasters
