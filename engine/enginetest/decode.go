// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"math"
	"math/rand/v2"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Decode makes a script of any bytes, one byte per random decision, so that a fuzzer that
// changes a byte changes one detail. Wild scripts contain values that no API server accepts:
// their plans need not satisfy Check.
func Decode(data []byte) (s *Script, wild bool) {
	src := &choices{data}
	r := &random{Rand: rand.New(src), s: &Script{Quotas: map[string]int64{}}}
	r.types(1 + r.IntN(3))
	r.pools(1 + r.IntN(3))
	r.daemons(r.IntN(3))
	r.nodes(r.IntN(4))
	for range 1 + r.IntN(4) {
		r.workload(1 + r.IntN(4))
	}
	r.age()
	r.s.Namespaces = map[string]map[string]string{"default": {}, "team-a": {"env": "prod"}, "team-b": {"env": "test"}}
	r.fullTypes()
	r.fullPools()
	r.fullNodes()
	r.fullPods()
	r.fullDaemons()
	wild = r.chance(30)
	for i := range r.s.Pods {
		if wild && r.chance(40) {
			r.makeInvalid(&r.s.Pods[i])
		}
	}
	if wild && r.chance(20) {
		r.s.Types[0].Offerings = append(r.s.Types[0].Offerings, offering.Offering{Price: -1})
	}
	return r.s, wild
}

// choices is a rand.Source of given bytes; once they are used up every answer is the largest,
// which ends every loop.
type choices struct{ data []byte }

func (c *choices) Uint64() uint64 {
	if len(c.data) == 0 {
		return math.MaxUint64
	}
	b := c.data[0]
	c.data = c.data[1:]
	return uint64(b) * 0x0101010101010101
}

// makeInvalid gives a pod an invalid value.
func (r *random) makeInvalid(p *cluster.Pod) {
	odd := []int64{1e18, math.MaxInt64, math.MinInt64, -1, 0}[r.IntN(5)]
	num := []int32{0, -1, 70000, math.MaxInt32, math.MinInt32}[r.IntN(5)]
	key := r.oneOf("", "no such key", cluster.LabelZone)
	switch r.IntN(7) {
	case 0:
		p.Requests = p.Requests.Add(nil)
		p.Requests[r.oneOf(quantity.NameCPU, quantity.NameMemory, quantity.NamePods, "", "a/b")] = odd
	case 1:
		p.Spreads = append(p.Spreads, cluster.TopologySpreadConstraint{Key: key, MaxSkew: num, MinDomains: num, Selector: cluster.Selector{Nothing: r.chance(50)}})
	case 2:
		p.Affinity = append(p.Affinity, cluster.PodAffinityTerm{Key: key, Weight: num})
	case 3:
		p.AntiAffinity = append(p.AntiAffinity, cluster.PodAffinityTerm{Key: key, Weight: num, Selector: cluster.Selector{NamespaceLabels: cluster.Term{}}})
	case 4:
		p.Ports = append(p.Ports, cluster.Port{Protocol: key, IP: key, Port: num})
	case 5:
		p.Preferred = append(p.Preferred, cluster.PreferredSchedulingTerm{Weight: num, Term: cluster.Term{{Key: key, Operator: "Near"}}})
	case 6:
		p.Volumes = append(p.Volumes, cluster.Volume{AnyOf: []cluster.Term{{{Key: key, Operator: constraint.Gt, Values: []string{"x"}}}}})
	}
}
