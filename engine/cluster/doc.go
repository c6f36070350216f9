// SPDX-License-Identifier: Apache-2.0

// Package cluster is the snapshot that every decision reads: pools, offerings, nodes and
// pods. A Builder groups like pods into pod classes and keeps the snapshot current.
//
// The types in spec.go are plain values in the words of a manifest; only package kube fills
// them, from API objects. Snapshot is the compiled form. It depends on nothing outside
// itself: it has no clock and no client.
package cluster
