// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"time"
)

// Settings are what an Auditor has to know and how patient it is. Zero durations mean their defaults;
// negative ones mean none.
type Settings struct {
	// Cluster is the value of the tag karve.dev_cluster of this cluster's resources. If it is empty,
	// those of every cluster count.
	Cluster string

	// ObjectLag is by how much changes of two kinds of objects may be seen in the wrong order, and
	// how old what karve decides by may be. Zero means 10s.
	ObjectLag time.Duration
	// CloudLag is how much older than its answer a list of the cloud may be. Zero means 2m.
	CloudLag time.Duration

	// WriteLag is how long karve may take from one write to the next that belongs to it, such as from a
	// taint to its reason. Zero means 1m.
	WriteLag time.Duration

	// OrphanBound is how long a resource may be without its NodeClaim (S1). Zero means 30m: twice the
	// 10 minutes in which karve makes sure, and a drain.
	OrphanBound time.Duration
	// MismatchBound is how long a Node, its NodeClaim and its VM may be without each other (L3).
	// Zero means 30m.
	MismatchBound time.Duration
	// AnswerBound is how long a pod may wait without a word of karve's about it (L2). Zero means 5m.
	AnswerBound time.Duration
	// LaunchBound is how long a NodeClaim may be without a Node (L4). Zero means 30m: twice the time in
	// which a Node must register.
	LaunchBound time.Duration
	// IdleBound is how long an empty node may stay that a NodePool wants to be rid of, if karve does not
	// say why and removes no other one (L7). Zero means 1h.
	IdleBound time.Duration
	// PodBound is how long a pod for which there is capacity may wait for it (L1). Zero means 20m: the
	// 15 minutes in which a node must register, and another decision.
	PodBound time.Duration
	// TerminationBound is how much longer than by terminationGracePeriod a termination may take, or
	// without one than until the last pod has left (L5). Zero means 30m.
	TerminationBound time.Duration

	// MostFailed is how many NodeClaims of a NodePool may end within an hour without a Node (L6). Zero
	// means 100.
	MostFailed int
	// MostCreated and MostDisrupted are how many NodeClaims may be created, and how many nodes may begin
	// to be disrupted, within a minute (S13). Zero means any number.
	MostCreated, MostDisrupted int
	// CycleWindow is within which time the same nodes may not come back twice without a reason from
	// outside (S14). Zero means 2h.
	CycleWindow time.Duration
	// Lease is the name of the Lease by which karve elects its leader (S21). Empty means
	// karpenter-leader-election.
	Lease string
	// Canaries are secrets that must be seen nowhere (S23).
	Canaries []string

	// Remember is for how long objects that are gone are known. Zero means 6h.
	Remember time.Duration
}

func (s Settings) withDefaults() Settings {
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&s.ObjectLag, 10 * time.Second},
		{&s.CloudLag, 2 * time.Minute},
		{&s.WriteLag, time.Minute},
		{&s.OrphanBound, 30 * time.Minute},
		{&s.MismatchBound, 30 * time.Minute},
		{&s.AnswerBound, 5 * time.Minute},
		{&s.LaunchBound, 30 * time.Minute},
		{&s.IdleBound, time.Hour},
		{&s.CycleWindow, 2 * time.Hour},
		{&s.PodBound, 20 * time.Minute},
		{&s.TerminationBound, 30 * time.Minute},
		{&s.Remember, 6 * time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.otherwise
		}
		*d.value = max(0, *d.value)
	}
	s.MostFailed = cmp.Or(s.MostFailed, 100)
	s.Lease = cmp.Or(s.Lease, "karpenter-leader-election")
	return s
}
