// SPDX-License-Identifier: Apache-2.0

// Package engine is the root of karve's decisions: which machines to buy for
// the pods that do not fit, and later which to give back.
//
// Everything below it is pure. No package here talks to a client, reads a clock,
// writes a log, takes a context or starts work that outlives a call; the imports
// are the standard library and engine/… only, and a test holds that. The same
// World therefore always gives the same Plan, byte for byte, and the controller,
// the demo and the tests run the very same decision.
//
// Read in this order: quantity and constraint (the algebra), offer (what is on
// sale), world (the snapshot), pack (the decision), reason (why not).
package engine
