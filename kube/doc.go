// Package kube converts between Kubernetes objects and the engine's types, and is the only
// package that does. Converters turn pods, nodes, NodeClaims, NodePools and DaemonSets into
// values of package cluster, and a planned launch back into a NodeClaim. Mirror keeps a
// cluster.Snapshot current from watch events. PDBs tells which pods the eviction API would
// not evict. DisruptionNode and DisruptionPool convert for decisions about nodes.
//
// The package makes no decisions and has no client, so it writes nothing. What the Snapshot
// cannot express is recorded in Pod.Refused. The zero Mirror is not usable; see NewMirror.
package kube
