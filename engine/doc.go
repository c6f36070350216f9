// SPDX-License-Identifier: Apache-2.0

// Package engine is the root of karve's decisions: which nodes to launch
// for pods that do not fit, and which nodes to remove.
//
// Everything below it is pure. No package here talks to a client, reads a clock,
// writes a log, takes a context or starts work that outlives a call; the imports
// are the standard library and engine/… only, and a test holds that. The same
// cluster.Snapshot therefore always gives the same Plan, byte for byte, and the
// controller, the demo and the tests run the very same decision.
//
// Read in this order: quantity and constraint (resources and label requirements),
// offering (what can be launched), cluster (the snapshot), schedule (where pods go,
// what to launch), disrupt (which nodes go), schedsim (what kube-scheduler would
// do), reason (why not).
package engine
