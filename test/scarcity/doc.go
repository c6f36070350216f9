// SPDX-License-Identifier: Apache-2.0

// Package scarcity has karve's Azure provider launch in emulated regions that are in
// trouble, in virtual time, and counts how it fares: beside it, under the same
// conditions, goes what Karpenter's provider for Azure would do.
//
// What is counted is counted on the wire, by the requests Azure sees, and not by what
// either says of itself. Its functions must be called within a testing/synctest bubble:
// elsewhere they take as long as Azure does. The zero Scenario works.
package scarcity
