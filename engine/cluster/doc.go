// SPDX-License-Identifier: Apache-2.0

// Package cluster is the snapshot that every decision reads: pools, offerings, nodes and
// pods. A Builder keeps it current from single changes; a decision reads a Snapshot of it, or
// supposes changes in a WhatIf.
//
// Each kind of object has two types. The first is a plain value in the words of a manifest
// (spec.go); only package kube makes such values, from API objects. The second is compiled:
//
//	in spec.go                        compiled
//	Pod                               PodClass: pods that every decision treats alike
//	  what it asks of its node        PodShape: shared by classes that ask the same
//	  TopologySpreadConstraint        TopologySpread
//	  PodAffinityTerm                 AffinityTerm; AntiAffinityTerm: a required one, as others see it
//	  Selector                        PodSelector, with the classes that it selects
//	Node                              NodeInfo, with its free capacity and the pods on it
//	NodePool, offering.InstanceType   PoolCatalog, with the offerings that the pool can launch
//	DaemonSet                         counted in NodeInfo and PoolCatalog
//
// Indexes answer for many objects at once. A NodeIndex groups nodes that are alike and holds
// their FreeCapacity; a bitset over the offerings of a PoolCatalog says which fit.
//
// The package reads nothing but what it is given: it has no clock and no client.
package cluster
