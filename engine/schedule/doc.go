// SPDX-License-Identifier: Apache-2.0

// Package schedule decides on which nodes pending pods run, and which nodes to launch for
// them. Solve is pure: the same cluster.Snapshot gives the same Plan.
//
// Pods are placed in bulk, one pod class after another. They fill nodes that exist or are in
// flight first. Nodes for the others are launched tier by tier; a tier is the NodePools of
// equal weight, and heavier weights come first. Within a tier the offering with the lowest
// price per useful content comes first. A CPU core or a byte is worth its shadow price in the
// fractional covering problem (see shadow).
//
// Honouring preferences (preferred affinity, soft spread and the like) may raise the price.
// The plan that honours none of them sets the base price. Further attempts require
// preferences, the heaviest first, and the best attempt that stays within the surplus wins
// (see preferenceSearch). Within an attempt a preference is a rule like any other until pods
// cannot be placed; those pods drop one preference and are placed again.
//
// A pod whose constraints Solve cannot plan for is left out with a reason; it is never placed
// by guess.
package schedule
