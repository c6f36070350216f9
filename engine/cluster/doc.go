// Package cluster is the snapshot every decision reads: pools, offers, nodes and
// pods, folded into classes of like pods and kept warm by a Builder.
//
// The types in spec.go are plain values in the words of a manifest; kube fills
// them from API objects and nothing else does. Snapshot is the compiled form. It
// refuses to look at anything by itself: no clock, no client.
package cluster
