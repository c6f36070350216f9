// SPDX-License-Identifier: Apache-2.0

// Package state keeps a cluster.Snapshot current from watch events. Mirror is the lock and the
// methods that controllers call. Behind it, stores hold the objects that were shown (pods,
// nodes and NodeClaims, catalogs, volumes), the nominations of pods to nodes, the replacements of
// evicted pods and the protections of pods against eviction; writers derive the Snapshot from
// them.
//
// A decision takes the Snapshot, and runs without the lock that events and queries wait for:
// snapshotBuilder keeps the changes that come meanwhile.
//
// The package makes no decisions and has no client, so it writes nothing to the cluster. The zero
// Mirror is not usable; see NewMirror.
package state
