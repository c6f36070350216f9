// SPDX-License-Identifier: Apache-2.0

// Package bound computes a price that no plan for pods can beat. It knows what the
// covering bound of a plan (package covering) does not: that pods are whole and nodes are whole, which
// pods each node type takes, and how many of those that keep apart.
//
// The bound is that of the configuration linear program: each column is a node with pods that fit on
// it together, any fraction of a column may be bought, and the columns must hold all pods
// (Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", 1961). There are
// too many columns to list, so those are generated that the prices of pods call for. Prices under which
// no node is worth more than it costs are a solution of the dual, and what all pods are worth under them
// is a bound; so the bound holds whatever the simplex method rounded, and wherever the search ends.
//
// It takes seconds: it judges plans, and is no part of any.
package bound
