// SPDX-License-Identifier: Apache-2.0

package audit

import "time"

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
	// PodBound is how long a pod for which there is capacity may wait for it (L1). Zero means 20m: the
	// 15 minutes in which a node must register, and another decision.
	PodBound time.Duration
	// TerminationBound is how much longer than by terminationGracePeriod a termination may take, or
	// without one than until the last pod has left (L5). Zero means 30m.
	TerminationBound time.Duration

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
		{&s.PodBound, 20 * time.Minute},
		{&s.TerminationBound, 30 * time.Minute},
		{&s.Remember, 6 * time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.otherwise
		}
		*d.value = max(0, *d.value)
	}
	return s
}
