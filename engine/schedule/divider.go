// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// These bound divide: pairs with so many pods together, in so many steps. On 2,000 mixed worlds (bench/worlds)
// half the steps and eight times as many save the same.
const (
	maxDividedPods = 48
	maxDivideSteps = 1 << 12
)

// singlePod is one pod of a launch.
type singlePod struct {
	allotment *allotment
	ref       []cluster.PodRef // of length one
	rank      float64          // by which divide sorts the pods
}

// divide divides the pods of two launches anew where that is cheaper: over two smaller nodes, or over two
// that suit large and small pods better. Only plans of few launches are examined.
func (im *improver) divide(examined []*launch) {
	if len(im.launches.all) > fewLaunches {
		return
	}
	im.maxSteps = min(im.maxSteps, im.progress.steps+maxDivideSteps)
	for i, a := range examined {
		for _, b := range examined[i+1:] {
			if im.outOfSteps() || im.dropped[a] || a.filled() >= wellFilled {
				break
			}
			if !im.dropped[b] && a.pool == b.pool && len(a.pods)+len(b.pods) <= maxDividedPods {
				im.dividePair(a, b)
			}
		}
	}
}

// dividePair replaces two launches by two that are cheaper, or by one. The pods are sorted by size, or by
// whether they ask for more cpu or memory. Each first part of the list gets the cheapest node that holds it,
// with as many of the others as it takes, and the rest another.
func (im *improver) dividePair(a, b *launch) {
	pods := append(singlePods(a), singlePods(b)...)
	total := a.used.Add(b.used)
	var one, two *launch
	least := im.price(a) + im.price(b)
	for _, rank := range []func(*quantity.Vector, *quantity.Vector) float64{largestShare, moreOfCPU} {
		for i := range pods {
			pods[i].rank = rank(&pods[i].allotment.group.shape.Requests, &total)
		}
		slices.SortStableFunc(pods, func(x, y singlePod) int { return cmp.Compare(y.rank, x.rank) })
		for n := 1; n < len(pods) && !im.outOfSteps(); n++ {
			if first, second, price := im.divideAt(n, pods, a, b, least); price < least {
				one, two, least = first, second, price
			}
		}
	}
	if one != nil {
		im.replaceByDivided(a, b, one, two)
	}
}

// singlePods lists the pods of a launch one by one.
func singlePods(l *launch) []singlePod {
	out := make([]singlePod, 0, len(l.pods))
	for _, p := range l.content {
		for range p.n {
			at := len(out)
			out = append(out, singlePod{allotment: p.allotment, ref: l.pods[at : at+1 : at+1]})
		}
	}
	return out
}

// largestShare is the largest share of the total that is asked for.
func largestShare(requests, total *quantity.Vector) float64 {
	most := 0.0
	for d, n := range requests {
		if n > 0 {
			most = max(most, shareOfTotal(requests, total, quantity.Dim(d)))
		}
	}
	return most
}

// moreOfCPU is by how much the share of cpu that is asked for exceeds that of memory.
func moreOfCPU(requests, total *quantity.Vector) float64 {
	return shareOfTotal(requests, total, quantity.CPU) - shareOfTotal(requests, total, quantity.Memory)
}

func shareOfTotal(requests, total *quantity.Vector, d quantity.Dim) float64 {
	return float64(requests[d]) / float64(max(1, total[d]))
}

// divideAt puts the first n pods on one node and those of the others that it does not take on another. The
// second is nil when the first takes all. The price is least where they cannot be cheaper than that.
func (im *improver) divideAt(n int, pods []singlePod, a, b *launch, least offering.Price) (one, two *launch, price offering.Price) {
	if one = im.cheapestWith(pods[:n], a, b); one == nil || im.priceOf(one) >= least {
		return nil, nil, least
	}
	var rest []singlePod
	for _, p := range pods[n:] {
		if im.move(one, p.allotment, p.ref) == 0 {
			rest = append(rest, p)
		}
	}
	price = im.priceOf(one)
	if len(rest) == 0 {
		return one, nil, price
	}
	if two = im.cheapestWith(rest, a, b); two == nil {
		return nil, nil, least
	}
	return one, two, price + im.priceOf(two)
}

// cheapestWith is a node with those pods of a and b: of the few cheapest offerings that have the capacity the
// first that their rules allow; nil when there is none.
func (im *improver) cheapestWith(pods []singlePod, a, b *launch) *launch {
	pool := a.pool
	im.merged.Copy(pool.available())
	rows := im.merged
	rows.Keep(im.topology.inCountedDomains(pool))
	var used quantity.Vector
	for i, p := range pods {
		if i == 0 || p.allotment != pods[i-1].allotment {
			rows.Keep(im.compatibility.compatible(pool, p.allotment).All)
		}
		used = used.Add(p.allotment.group.shape.Requests)
	}
	if a.isForOwed() || b.isForOwed() {
		rows.DropAll(pool.tooSmall)
	}
	pool.DropNotFitting(rows, &used)
	tried := 0
	for row := range rows.All() {
		if tried++; tried > maxMergeOfferings || im.outOfSteps() {
			return nil
		}
		l := im.emptyNode(pool, row, a, b)
		if !slices.ContainsFunc(pods, func(p singlePod) bool { return im.move(l, p.allotment, p.ref) == 0 }) {
			return l
		}
	}
	return nil
}

// replaceByDivided launches one and two, if there is a second, for a and b when limits and quota allow it.
func (im *improver) replaceByDivided(a, b, one, two *launch) {
	im.limits.release(a)
	im.limits.release(b)
	switch {
	case !im.reserve(one):
	case two == nil:
		*a, im.dropped[b] = *one, true
		delete(im.prices, a)
		return
	case im.reserve(two):
		*a, *b, im.divided = *one, *two, true
		delete(im.prices, a)
		delete(im.prices, b)
		return
	default:
		im.limits.release(one)
	}
	im.limits.reserve(a)
	im.limits.reserve(b)
}

// reserve takes the launch out of limits and quota, if these allow it.
func (im *improver) reserve(l *launch) bool {
	return im.limits.nodesAllowed(l.pool, l.row) > 0 && im.minValues.reserveLaunch(l, &l.used)
}
