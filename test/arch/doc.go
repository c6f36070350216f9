// SPDX-License-Identifier: Apache-2.0

// Package arch holds the rules of the house as tests that read source files:
// which package may import which, that every package says what it is, that
// nothing happens before main and nothing changes behind a caller's back, and
// what the product's module may depend on.
//
// It has no code of its own. A failure names the rule and the way out.
package arch
