// SPDX-License-Identifier: Apache-2.0

// Package judge checks a plan with the real kube-scheduler's filters. It writes a
// script's cluster and the nodes that the plan launches as Kubernetes objects, builds
// the scheduler's own filter plugins over them, and puts the planned pods where
// the plan says, one after the other.
//
// A plan is right when some order of the pods is accepted. The replay follows the
// stages of a cluster: leaving nodes and terminating pods still exist; pods that move
// have left; terminating pods have ended; leaving nodes are gone.
// A pod may be accepted at any of these times.
//
// It shares no code with the engine or with kube's converters: the meaning of a field
// is read from engine/cluster's documentation once more, so that a mistake
// there is not repeated here. Preferences are left out; filters do not look at them.
// The engine does not tell a volume that is there from one to be made where it may
// be; the judge writes some as bound claims and some as claims that wait for a node.
package judge
