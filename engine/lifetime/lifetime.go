// SPDX-License-Identifier: Apache-2.0

// Package lifetime estimates how much longer a pod stays on its node, from how long it has been
// there and how long others of its workload stayed.
//
// Like all of engine the package is pure: it reads only its arguments. The zero Record knows of no
// pod.
package lifetime

import (
	"math/bits"
	"time"
)

// buckets is how many ranges of stays a Record tells apart: below a minute, then each twice as long
// as the one before. The last one, of stays above eleven days, has no end.
const buckets = 16

// full is how many stays of one range are counted before all counts are halved, so that recent stays
// count most.
const full = 64

// Record is how long pods of one workload stayed on their nodes, as counts by range: 16 bytes.
type Record struct {
	ended [buckets]uint8
}

// Add counts a pod that left of its own accord: it ended, or its controller deleted it. One that was
// evicted, or whose node went, would have stayed longer and must not be counted.
func (r *Record) Add(stay time.Duration) {
	b := bucketOf(stay)
	if r.ended[b]++; r.ended[b] < full {
		return
	}
	for i := range r.ended {
		r.ended[i] /= 2
	}
}

// Pods is how many pods the Record counts.
func (r *Record) Pods() int {
	n := 0
	for _, ended := range r.ended {
		n += int(ended)
	}
	return n
}

// Remaining is for how much longer a pod may be expected to stay that has been on its node for that
// long. It is the mean residual life: the mean, over the pods that stayed longer than that, of how
// much longer they stayed. The pod itself counts as one of them, with as much again as it has stayed
// already: so long do things last of which nothing else is known (Lindy's law; the lives of VMs and
// jobs have long tails, see Cortez et al., "Resource Central", SOSP 2017).
func (r *Record) Remaining(stayed time.Duration) time.Duration {
	stayed = max(0, stayed)
	sum, pods := float64(stayed), 1.0
	for b := bucketOf(stayed); b < buckets; b++ {
		from, to := max(stayed, lower(b)), max(stayed, lower(b+1))
		longer := float64(r.ended[b]) * float64(to-from) / float64(lower(b+1)-lower(b)) // the range counts as evenly filled
		sum += longer * float64((from-stayed)+(to-from)/2)
		pods += longer
	}
	return time.Duration(min(sum/pods, 1<<62))
}

// bucketOf is the range of the stay: 0 below a minute, else one more than the binary logarithm of its
// whole minutes.
func bucketOf(stay time.Duration) int {
	return min(bits.Len64(uint64(max(0, stay)/time.Minute)), buckets-1)
}

// lower is where a range begins, and the one before it ends. The last one counts as ending at twice
// where it begins.
func lower(b int) time.Duration {
	if b == 0 {
		return 0
	}
	return time.Minute << (b - 1)
}
