// SPDX-License-Identifier: Apache-2.0

// Package disrupt decides which nodes to remove and what replaces them. A node is removed
// because it is empty, drifted or expired, or because the cluster is cheaper without it.
//
// Like all of engine the package is pure: it reads only its arguments. It applies candidate
// moves to a what-if of the snapshot (cluster.WhatIf) and asks package schedule where the pods
// would go; the snapshot itself does not change. Every node that is kept gets a reason.
//
// The package does not carry out moves, read clocks or wait. The zero Input has no nodes; the
// zero Settings are karve's rules without any threshold.
package disrupt
