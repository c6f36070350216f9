// Package termination takes nodes out of service: it keeps new pods away, drains
// the old ones through the eviction API, waits for their volumes, gives the
// machine back and only then lets go of the objects.
//
// It refuses to decide whether a node should go: a deletion timestamp says so.
// Every step can be repeated. The zero reconcilers are not usable; all fields are
// required.
package termination
