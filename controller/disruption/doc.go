// SPDX-License-Identifier: Apache-2.0

// Package disruption carries out moves: it disrupts nodes that are empty, drifted, expired or
// not worth their price. In order, it chooses a move, checks it again, marks and taints the nodes,
// inspects them past the cache, launches replacements, waits until these are initialized, and
// deletes the NodeClaims. controller/termination then drains the nodes.
//
// It does not decide which nodes to disrupt (see engine/disrupt), and it keeps nothing in memory
// that a crash may not lose. A move in progress is written on its NodeClaims (see kube.MoveMark):
// the next leader continues it if all its replacements exist, and takes it back otherwise.
// Back-offs of nodes and NodePools are written on them as well (see kube.BackOffAnnotation).
package disruption
