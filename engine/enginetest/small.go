// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// RandomSmall is a script small enough for BestScore: at most eight pods, few offerings and nodes.
// With full it mixes in every kind of rule, else it is like Random.
func RandomSmall(seed uint64, full bool) *Script {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0x5a11)), s: &Script{Quotas: map[string]int64{}}}
	r.types(1 + r.IntN(3))
	for i := range r.s.Types {
		t := &r.s.Types[i]
		r.Shuffle(len(t.Offerings), func(i, j int) { t.Offerings[i], t.Offerings[j] = t.Offerings[j], t.Offerings[i] })
		t.Offerings = t.Offerings[:min(len(t.Offerings), 2)]
	}
	r.pools(1 + r.IntN(2))
	r.daemons(r.IntN(2))
	r.nodes(r.IntN(3))
	pods := 1 + r.IntN(8)
	for i := range r.s.Pods { // pods of leaving nodes count too
		if r.s.leavingPod(r.s.Pods[i]) {
			pods--
		}
	}
	for end := len(r.s.Pods) + max(1, pods); len(r.s.Pods) < end; {
		r.workload(min(1+r.IntN(4), end-len(r.s.Pods)))
	}
	r.age()
	r.s.Settings.Preferences = cluster.Ignore // the oracle does not know them
	if full {
		r.fullTypes()
		r.fullPools()
		r.fullNodes()
		r.fullPods()
		r.fullReplicas(seed)
		r.fullTerms(seed)
		r.fullDaemons()
		r.s.Namespaces = map[string]map[string]string{"default": {}, "team-a": {"env": "prod"}, "team-b": {"env": "test"}}
		r.plainPools()
	}
	return r.s
}

func (s *Script) leavingPod(p cluster.Pod) bool {
	for _, n := range s.Nodes {
		if n.Name != "" && n.Name == p.Node {
			return n.MarkedForDeletion && p.ReschedulableNow
		}
	}
	return false
}

// plainPools removes minValues: they restrict which offerings are acceptable, not which one is
// launched, and the oracle launches one offering at a time.
func (r *random) plainPools() {
	for i := range r.s.Pools {
		for j := range r.s.Pools[i].Requirements {
			r.s.Pools[i].Requirements[j].MinValues = 0
		}
	}
}

// RandomColocated is a script small enough for BestScore in which most pods must share a node with
// pods of their own workload or of another one.
func RandomColocated(seed uint64) *Script {
	s := RandomSmall(seed, false)
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0xc010)), s: s}
	apps := []string{"a", "b", "c"}
	var labels map[string]string
	var terms []cluster.PodAffinityTerm
	workload := ""
	for i := range s.Pods {
		p := &s.Pods[i]
		if name := p.Name[:max(0, strings.LastIndexByte(p.Name, '-'))]; name != workload || p.Node != "" {
			workload, labels, terms = name, map[string]string{"app": r.oneOf(apps...)}, nil
			if p.Node == "" && r.chance(70) {
				wanted := labels["app"]
				if r.chance(50) {
					wanted = r.oneOf(apps...)
				}
				terms = []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: cluster.Selector{
					Namespaces: []string{"default"}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{wanted}}},
				}}}
			}
		}
		p.Labels, p.Affinity = labels, terms
	}
	return s
}

// RandomSharing is a script small enough for BestScore with several workloads whose pods must share a
// node. Some must not be beside those of another workload, or must be in a zone, and the pool has limits.
func RandomSharing(seed uint64) *Script {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0x5a4e)), s: &Script{}}
	pool := cluster.NodePool{Name: "all", NodeClass: NodeClass}
	if r.chance(70) {
		pool.Limits = quantity.Amounts{quantity.NameCPU: int64(4+r.IntN(28)) * 1000}
	}
	if r.chance(30) {
		pool.Limits = quantity.Amounts{quantity.NameNodes: int64(1 + r.IntN(4))}
	}
	r.s.Pools = []cluster.NodePool{pool}
	for _, cpu := range r.Perm(5)[:3+r.IntN(2)] {
		r.sharingType(int64(1) << cpu)
	}
	workloads := 2 + r.IntN(3)
	for w := range workloads {
		r.sharingWorkload(w, workloads, 2+r.IntN(2))
	}
	r.s.Settings.Preferences = cluster.Ignore
	return r.s
}

// sharingType adds an instance type with as many cores, in two zones.
func (r *random) sharingType(cpu int64) {
	t := offering.InstanceType{
		Name:     fmt.Sprint("D", cpu),
		Capacity: quantity.Amounts{quantity.NameCPU: cpu * 1000, quantity.NameMemory: cpu << 32, quantity.NamePods: 110},
	}
	price := offering.Price(cpu * int64(40+r.IntN(20)) * 1e6)
	for _, zone := range []string{"1", "2"} {
		t.Offerings = append(t.Offerings, offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: price})
	}
	r.s.Types = append(r.s.Types, t)
}

// sharingWorkload adds workload w of as many: its pods must share a node with each other, or all but the
// first with that one.
func (r *random) sharingWorkload(w, workloads, pods int) {
	onHost := func(label, value string) []cluster.PodAffinityTerm {
		return []cluster.PodAffinityTerm{{Key: cluster.LabelHostname, Selector: cluster.Selector{
			Namespaces: []string{"default"}, Labels: cluster.Term{{Key: label, Operator: constraint.In, Values: []string{value}}},
		}}}
	}
	app := fmt.Sprint("w", w)
	pod := cluster.Pod{
		Labels:   map[string]string{"app": app},
		Affinity: onHost("app", app),
		Requests: quantity.Amounts{quantity.NameCPU: int64(1+r.IntN(12)) * 250, quantity.NameMemory: int64(1+r.IntN(8)) << 29, quantity.NamePods: 1},
	}
	if r.chance(30) {
		if other := r.IntN(workloads); other != w {
			pod.AntiAffinity = onHost("app", fmt.Sprint("w", other))
		}
	}
	if r.chance(30) {
		pod.Required = cluster.Term{{Key: offering.LabelZone, Operator: constraint.In, Values: []string{r.oneOf("1", "2")}}}
	}
	followers := pod
	first := pod
	if r.chance(40) {
		first.Labels, first.Affinity = map[string]string{"app": app, "leads": app}, nil
		followers.Affinity = onHost("leads", app)
	}
	for i := range pods {
		p := followers
		if i == 0 {
			p = first
		}
		name := fmt.Sprint(app, "-", i)
		p.PodRef = cluster.PodRef{Namespace: "default", Name: name, UID: name}
		r.s.Pods = append(r.s.Pods, p)
	}
}
