// SPDX-License-Identifier: Apache-2.0

// Package kube converts between Kubernetes objects and the engine's types, and is the only
// package that does. Converters turn pods, nodes, NodeClaims, NodePools and DaemonSets into
// values of package cluster, and a planned launch back into a NodeClaim. DisruptionNode and
// DisruptionPool convert for decisions about nodes.
//
// Conversion is pure: the package makes no decisions and has no client. Only Storage holds objects
// of the cluster: those that its caller gave it. What a Snapshot cannot express is recorded in
// Pod.Refused. Package state keeps a Snapshot current with these conversions.
package kube
