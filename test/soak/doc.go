// SPDX-License-Identifier: Apache-2.0

// Package soak keeps karve running while everything in its cluster comes and goes under
// names that were never used before, and then looks for what karve still holds: it is a
// package of tests only. A process that runs for months must need no more memory than the
// cluster that is there.
//
// It refuses to guess what may grow: every map, slice and channel that can be reached from
// what lives as long as the process is measured.
package soak
