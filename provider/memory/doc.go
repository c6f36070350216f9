// SPDX-License-Identifier: Apache-2.0

// Package memory is a provider whose cloud is a value in the same process, with latency, quota,
// stock-outs and spot reclaim, for tests and simulation.
//
// A Cloud outlives its Providers, as a real one does: a second Provider over the same Cloud sees
// what a restarted controller sees. Nothing runs in the background; the state of an instance is
// computed from the clock at each call. So the package works in a testing/synctest bubble, where
// latencies pass in virtual time.
//
// It allows everything that a real provider allows, and passes providertest. The zero Cloud is
// not usable; see NewCloud.
package memory
