// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// resourceNodes is the limit on the number of NodeClaims.
const resourceNodes = corev1.ResourceName("nodes")

// limits judges that the NodeClaims of a NodePool never exceed spec.limits (S5).
//
// Every NodeClaim counts until it is gone, as its VM is paid until then; Karpenter leaves out those
// that are being deleted. It counts what status.capacity says once it is launched, and before that what
// its pods ask for, which is less than any VM that will do: what it may become is known to karve only.
// A limit that was lowered below what there is allows nothing more, and is no violation.
type limits struct {
	bench
	counted map[types.UID]counted
	used    map[string]amounts // by NodePool
	grown   []growth
}

type counted struct {
	pool string
	amounts
}

type amounts = corev1.ResourceList

// growth is one that exceeded the limits as they were seen then.
type growth struct {
	at   time.Time // when it was seen
	from time.Time // the earliest that the limit may have been read for it
	claim,
	pool string
	resource corev1.ResourceName
	used     resource.Quantity
}

func newLimits(b bench) *limits {
	return &limits{bench: b, counted: map[types.UID]counted{}, used: map[string]amounts{}}
}

func (j *limits) claim(at time.Time, _ *karpv1.NodeClaim, x *claim) {
	before, known := j.counted[x.UID]
	j.add(before, -1)
	delete(j.counted, x.UID)
	if !x.lives() {
		j.left(at, before)
		return
	}
	now := counted{x.pool(), amountsOf(x.NodeClaim)}
	j.counted[x.UID] = now
	j.add(now, 1)
	if !known && j.found(at, x) {
		return
	}
	for name, amount := range now.amounts {
		if had := before.amounts[name]; amount.Cmp(had) > 0 {
			j.grow(growth{at: at, from: x.seen, claim: x.name(), pool: now.pool, resource: name, used: j.used[now.pool][name].DeepCopy()})
		}
	}
}

// found reports whether the NodeClaim had existed for a while when it was seen first.
func (j *limits) found(at time.Time, x *claim) bool {
	created := x.CreationTimestamp.Time
	return !created.IsZero() && at.Sub(created) > j.settings.ObjectLag+time.Second // which timestamps are rounded to
}

func amountsOf(c *karpv1.NodeClaim) amounts {
	of := c.Status.Capacity
	if len(of) == 0 {
		of = c.Spec.Resources.Requests
	}
	out := of.DeepCopy()
	if out == nil {
		out = amounts{}
	}
	out[resourceNodes] = resource.MustParse("1")
	return out
}

func (j *limits) add(c counted, sign int) {
	if c.pool == "" {
		return
	}
	sum := j.used[c.pool]
	if sum == nil {
		sum = amounts{}
		j.used[c.pool] = sum
	}
	for name, amount := range c.amounts {
		total := sum[name]
		if sign > 0 {
			total.Add(amount)
		} else {
			total.Sub(amount)
		}
		if sum[name] = total; total.IsZero() {
			delete(sum, name)
		}
	}
	if len(sum) == 0 {
		delete(j.used, c.pool)
	}
}

// grow keeps a growth to be judged, unless the limits as they are now allow it.
func (j *limits) grow(g growth) {
	if p := j.cluster.pools[g.pool]; p != nil && p.lives() {
		if limit, ok := p.Spec.Limits[g.resource]; !ok || g.used.Cmp(limit) <= 0 {
			return
		}
	}
	j.grown = append(j.grown, g)
}

// left takes a NodeClaim that is gone out of what was counted a moment before: after an interrupted
// watch the new ones are seen before the end of the old ones.
func (j *limits) left(at time.Time, c counted) {
	for i := range j.grown {
		if g := &j.grown[i]; g.pool == c.pool && at.Sub(g.at) < j.settings.ObjectLag {
			g.used.Sub(c.amounts[g.resource])
		}
	}
}

func (j *limits) check(at time.Time) {
	j.grown = slices.DeleteFunc(j.grown, func(g growth) bool {
		due := at.Sub(g.at) >= j.settings.ObjectLag
		if due {
			j.judge(g)
		}
		return due
	})
}

// judge compares with the highest of the limits that karve may have read.
func (j *limits) judge(g growth) {
	p := j.cluster.pools[g.pool]
	if p == nil {
		return
	}
	var highest resource.Quantity
	for _, spec := range p.specs.within(g.from.Add(-j.settings.ObjectLag), g.at.Add(j.settings.ObjectLag)) {
		limit, ok := spec.Limits[g.resource]
		if !ok || g.used.Cmp(limit) <= 0 {
			return
		}
		if limit.Cmp(highest) > 0 {
			highest = limit
		}
	}
	j.violation("S5", "nodepool/"+g.pool, g.at, fmt.Sprintf("%s brought its %s to %s, more than the limit of %s",
		g.claim, g.resource, g.used.String(), highest.String()))
}
