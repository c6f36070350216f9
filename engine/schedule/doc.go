// SPDX-License-Identifier: Apache-2.0

// Package schedule decides on which nodes pending pods run, and which nodes to launch for
// them. Solve is pure: the same cluster.Snapshot gives the same Plan.
//
// Pods are placed in bulk, one pod class after another. They fill nodes that exist or are in
// flight first. Nodes for the others are launched from the NodePools, those of the heaviest
// weight first. Among pools of equal weight the offering with the lowest price per useful
// content comes first. A CPU core or a byte is worth its shadow price in the fractional covering
// problem (see package covering). An offering is known by its row, its index in the catalog,
// which is sorted by price; sets of offerings are sets of rows.
//
// Solve makes attempts, one for each choice of preferences to honour. An attempt makes rounds
// until one learns nothing new (see learned); a round is a solver. Where to read:
//
//	solve.go            a round of an attempt, from the top down
//	assign.go           pod groups are assigned to cells, such as a zone
//	nodes.go            pods go to nodes that exist or are in flight; sparednodes.go
//	colocation.go       pods that must share a node are placed as one
//	launcher.go         nodes are launched: candidate.go, filling.go, nodedemand.go; packing.go
//	                    counts pods instead of filling; worthbound.go and leadingpods.go bound
//	                    what a filling is worth
//	budget.go           how many steps each search may take
//	exclusiveclaims.go  which of the pods that share a claim for one pod goes first
//	improver.go         launches are merged and dropped
//	retry.go            pods that were left out are tried again; enlarge.go
//	opendomain.go       places for some of them on nodes that may be in several topology domains
//	fewestnodes.go      a further plan launches as few nodes as possible
//	leftoutfirst.go     further plans place pods that were left out first
//	placements.go       where pods were put, for those that must be bound after others; bindorder.go,
//	                    affinitywaits.go
//	topology.go         counts by zone; domainrule.go reads them for pods; countfamily.go, openlabel.go
//	noderules.go        what pods ask of the pods beside them; counters.go counts those
//	limits.go           what may still be launched; quota.go, minvalues.go
//	offeringchoice.go   which offerings a launch accepts
//	descriptions.go     the plan; explainer.go, runnersup.go and lowerbound.go say why
//	preferencesearch.go which preferences are honoured
//
// Honouring preferences (preferred affinity, soft spread and the like) may raise the price.
// The plan that honours none of them sets the base price. Further attempts require
// preferences, the heaviest first, and the best attempt that stays within the preference surplus
// wins (see preferenceSearch). Within an attempt a preference is a rule like any other until pods
// cannot be placed; those pods drop one preference and are placed again.
//
// A pod whose constraints Solve cannot plan for is left out with a reason; it is never placed
// by guess.
package schedule
