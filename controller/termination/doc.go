// SPDX-License-Identifier: Apache-2.0

// Package termination takes nodes out of service: it keeps new pods away, drains
// the old ones through the eviction API (or, where their Deployment asks for it, by
// a rolling restart), waits for their volumes, gives the machine back and only then
// lets go of the objects.
//
// It refuses to decide whether a node should go: a deletion timestamp says so.
// Every step can be repeated. The zero reconcilers are not usable; all fields but
// Evictor.Surges are required.
package termination
