// SPDX-License-Identifier: Apache-2.0

// Package constraint is the algebra of label requirements. A Requirement is the set of
// values that one label may have: interned values, a complement flag, integer bounds, and
// whether the label may be missing. A Set is a conjunction of Requirements, one per key.
//
// The zero Requirement admits nothing; the zero Set admits everything.
package constraint
