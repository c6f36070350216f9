// Package memory is a provider whose cloud is a value in the same process, with
// latency, quota, stock-outs and spot reclaim, for tests and simulation.
//
// A Cloud outlives its Providers, as a real one does: a second Provider over the
// same Cloud is what a restarted controller sees. Nothing runs in the
// background; where time matters the state of a machine is worked out from the
// clock when it is asked for. So it works in a testing/synctest bubble, where
// latencies pass in virtual time.
//
// It refuses nothing a real provider would allow and holds itself to
// providertest. The zero Cloud is not usable; see NewCloud.
package memory
