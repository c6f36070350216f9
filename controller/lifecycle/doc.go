// Package lifecycle takes a NodeClaim from a wish to a node: launched,
// registered, initialized, or given up in time.
//
// It refuses to decide what to buy (the claim says what it accepts) and to end
// machines (see controller/termination). Every step can be repeated: whatever
// was interrupted is finished by reconciling again, and one claim never gets two
// machines because the provider knows it by UID. The zero Reconciler is not
// usable; all fields are required except where said.
package lifecycle
