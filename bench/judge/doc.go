// Package judge asks the real kube-scheduler what it thinks of a plan. It writes a
// script's world and the machines that the plan buys as Kubernetes objects, builds
// the scheduler's own filter plugins over them, and puts the planned pods where
// the plan says, one after the other.
//
// A plan is right when some order of the pods is accepted. The replay follows the
// course of events: now, with leaving nodes and ending pods still there; when
// what moves has left; when what ends has ended; at last without the leaving nodes.
// A pod may be accepted at any of these times.
//
// It refuses to share code with the engine or with kube's converters: what a field
// means is read from engine/cluster's documentation once more, so that a mistake
// there is not repeated here. Preferences are left out; filters do not look at them.
// The engine does not tell a volume that is there from one to be made where it may
// be; the judge writes some as bound claims and some as claims that wait for a node.
package judge
