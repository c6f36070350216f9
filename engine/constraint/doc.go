// Package constraint is the algebra of label requirements: sets over interned
// values with a complement flag and integer bounds.
package constraint
