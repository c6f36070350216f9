// Package pack answers one question: where do these pods go, and what must be
// bought for them? Solve is pure: the same World gives the same Plan.
//
// Pods are placed class by class and in bulk. First they fill nodes that exist
// or are on their way. What is left is bought pool tier by pool tier (heavier
// weights first); within a tier the shape with the lowest price per useful
// content goes first, where the worth of a core or a byte is its shadow price in
// the fractional covering problem (see shadow).
//
// It refuses to guess. A pod whose constraints it cannot plan for is left out
// with a reason, never placed on a hunch.
package pack
