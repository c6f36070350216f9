// SPDX-License-Identifier: Apache-2.0

// Package clusterlife lives days of a cluster in virtual time: workloads that breathe, nodes
// that fail, prices and stock that change, and karve's own decisions about all of it.
//
// A Cluster is the truth. What decides is the real engine behind a Mind; what acts is a
// small executor of the same order that controller/disruption keeps: taint, look again,
// launch, wait until initialized, drain through an evictor that honours disruption
// budgets of pods, and gone. A Watch looks at the truth at every instant and shares no
// code with the engine, so that a wrong decision is seen and not merely repeated. What a
// fleet costs is held against a floor of its own making, below which nobody can run the
// same pods.
//
// The same seed always lives the same day. It refuses to talk to an API server, to sleep
// and to know what time it is. The zero Cluster is not usable; see New.
package clusterlife
