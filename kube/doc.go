// Package kube is the only place where Kubernetes objects and the engine's
// World meet. Converters turn pods, nodes, NodeClaims, NodePools and DaemonSets
// into plain world values and a planned launch back into a NodeClaim; Mirror
// keeps a World current from watch events, and PodBudgets whom the eviction API
// would refuse. DisruptionNode and DisruptionPool convert for decisions about nodes.
//
// It refuses to decide and to write: it has no client, and what it cannot
// express in the World it says in Pod.Refused. The zero Mirror is not usable;
// see NewMirror.
package kube
