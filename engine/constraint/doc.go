// Package constraint is the algebra of label requirements. A Requirement is the
// set of values one label may have, over interned values, with a complement
// flag, integer bounds, and whether the label may be missing altogether. A Set is
// a conjunction of them, one per key.
//
// The zero Requirement admits nothing; the zero Set admits everything.
package constraint
