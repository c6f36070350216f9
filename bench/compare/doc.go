// SPDX-License-Identifier: Apache-2.0

// Package compare plans for random clusters (bench/worlds) with karve and with upstream's
// provisioner (bench/upstream), and compares what kube-scheduler's filters accept of the plans:
// first the pods that have no place, by priority, then the price of the launches.
//
// Both sides get the same objects, and the instance types with NodeOverlays applied. The worlds are
// those of worlds.Shared, without what upstream does not know. One thing is told to upstream in
// another way: it waits while a NodeClaim is not launched, so such a NodeClaim is shown to it as
// launched, with the one offering that its requirements leave.
//
// The filters accept a plan when some order of the pods works, and kube-scheduler takes its own. So
// where karve leaves more pods out, kube-scheduler also binds the pods of both plans as the nodes arrive
// (worlds.World.Pending), and those that it leaves pending count.
//
// Of a plan of upstream's that the filters refuse in part, the part that they accept is compared,
// and counted apart. Upstream decides differently from run to run, so the best of several runs is
// compared.
package compare
