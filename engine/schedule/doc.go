// Package schedule answers one question: where do these pods go, and what must be
// bought for them? Solve is pure: the same World gives the same Plan.
//
// Pods are placed class by class and in bulk. First they fill nodes that exist
// or are on their way. What is left is bought pool tier by pool tier (heavier
// weights first); within a tier the shape with the lowest price per useful
// content goes first, where the worth of a core or a byte is its shadow price in
// the fractional covering problem (see shadow).
//
// What pods merely prefer has a price. The plan that honours nothing sets it; then
// attempts insist on preferences, the heaviest first, and the best of them that stays
// within the surplus wins (see bargain). Within an attempt a preference is a rule
// like any other until pods find no home; those give it up and are placed again.
//
// It refuses to guess. A pod whose constraints it cannot plan for is left out
// with a reason, never placed on a hunch.
package schedule
