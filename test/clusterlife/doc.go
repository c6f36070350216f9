// SPDX-License-Identifier: Apache-2.0

// Package clusterlife simulates days of a cluster in virtual time: workloads that scale, nodes
// that fail, prices and stock that change, and karve's own decisions about all of it.
//
// A Cluster is the true state. The real engine decides, behind a Decider; a
// small executor acts in the same order as controller/disruption: taint, look again,
// launch, wait until initialized, drain through an evictor that honours
// PodDisruptionBudgets, and delete. A Checker checks the true state at every instant and shares no
// code with the engine, so that a wrong decision is seen and not merely repeated. The cost of all
// nodes is compared with a lower bound computed here, below which the same pods cannot run.
//
// The same seed always gives the same day. The package uses no API server, no sleep
// and no real time. The zero Cluster is not usable; see New.
package clusterlife
