// SPDX-License-Identifier: Apache-2.0

// Package termination takes nodes out of service: it keeps new pods away, drains
// the old ones through the eviction API (or, where their Deployment asks for it, by
// a rolling restart), waits for their volumes, terminates the instance and only then
// removes the finalizers from the objects.
//
// It does not decide which nodes to remove: a deletion timestamp does.
// Every step can be repeated. The zero reconcilers are not usable; all fields are
// required unless their comments say otherwise.
package termination
