// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// driver is the CSI driver of random volumes.
const driver = "disk.csi.example.com"

// RandomFull is Random with every kind of rule mixed in: spread, pod affinity and anti-affinity
// with selectors that match other workloads and namespaces, ports, volumes and attach limits,
// devices, preferences, minValues, reservations, static pools, virtual and terminating pods, and
// nodes in every state.
func RandomFull(seed uint64, pods int) *Script {
	s := Random(seed, pods)
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0xf011)), s: s}
	s.Namespaces = map[string]map[string]string{"default": {}, "team-a": {"env": "prod"}, "team-b": {"env": "test"}}
	s.Settings = cluster.Settings{Preferences: cluster.PreferencePolicy(r.oneOf("", string(cluster.Respect), string(cluster.Ignore))), PreferenceSurplusPermille: []int{0, 100, 1000, cluster.UnlimitedPreferenceSurplus}[r.IntN(4)], RelaxMinValues: r.chance(50)}
	r.fullTypes()
	r.fullPools()
	r.fullVariety(seed)
	r.fullNodes()
	r.fullPods()
	r.fullReplicas(seed)
	r.fullTerms(seed)
	r.fullDaemons()
	r.fullResources(seed)
	return s
}

func (r *random) fullTypes() {
	for i := range r.s.Types {
		t := &r.s.Types[i]
		if r.chance(40) {
			t.Capacity[quantity.Attachable+driver] = int64(1 + r.IntN(4))
		}
		if r.chance(25) && len(t.Offerings) > 0 {
			id := fmt.Sprint("r", i)
			r.s.Quotas[reservation(id)] = int64(r.IntN(4))
			o := offering.Offering{Zone: t.Offerings[0].Zone, CapacityType: offering.Reserved, Price: t.Offerings[0].Price / 100, QuotaUses: []offering.QuotaUse{{Quota: reservation(id), Amount: 1}}}
			labelOffering(&o, LabelReservation, id)
			t.Offerings = append(t.Offerings, o)
		}
	}
}

func (r *random) fullPools() {
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		p.Static = r.chance(8)
		if r.chance(15) {
			p.Requirements = append(p.Requirements, constraint.Rule{Key: r.oneOf(cluster.LabelInstanceType, cluster.LabelZone, "arch"), Operator: constraint.Exists, MinValues: 2})
		}
	}
}

func (r *random) fullNodes() {
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		n.TakesNoPods = r.chance(10)
		if r.chance(20) { // not managed by any pool
			n.Pool, n.HasNodeClaim, n.Initialized = "", false, true
			delete(n.Labels, cluster.LabelNodePool)
		}
		if r.chance(20) {
			delete(n.Labels, cluster.LabelZone)
		}
		if r.chance(40) {
			n.Labels["team"] = r.oneOf("red", "blue")
		}
		if r.chance(40) {
			n.Allocatable[quantity.Attachable+driver] = int64(r.IntN(4))
		}
		if r.chance(10) && n.HasNodeClaim && !n.MarkedForDeletion {
			r.unregister(n)
		}
	}
}

// unregister makes a node one that has not registered yet: no pod is bound to it.
func (r *random) unregister(n *cluster.Node) {
	for i := range r.s.Pods {
		if r.s.Pods[i].Node == n.Name {
			r.s.Pods[i].Node, r.s.Pods[i].ReschedulableNow, r.s.Pods[i].DaemonSet = "", false, ""
		}
	}
	n.Name, n.Initialized, n.TakesNoPods = "", false, false
	delete(n.Labels, cluster.LabelHostname)
}

// fullPods changes whole workloads, so that their pods remain alike, and bound pods one by one.
func (r *random) fullPods() {
	var last cluster.Pod
	workload := ""
	for i := range r.s.Pods {
		p := &r.s.Pods[i]
		name := p.Name[:max(0, strings.LastIndexByte(p.Name, '-'))]
		if p.Node != "" || name != workload {
			last = r.podDetails(p.Node == "")
			workload = name
		}
		p.Namespace, p.Labels = last.Namespace, last.Labels
		p.Spreads, p.Affinity, p.AntiAffinity, p.Preferred = last.Spreads, last.Affinity, last.AntiAffinity, last.Preferred
		p.Ports, p.Virtual, p.Terminating = last.Ports, last.Virtual, last.Terminating
		for _, v := range last.Volumes {
			if !v.Shared {
				v.ID += "-" + p.Name
			}
			p.Volumes = append(p.Volumes, v)
		}
	}
}

// fullReplicas gives pending replicas anti-affinity and volumes that other pods may mount too: one
// together, or each its own. It has its own random source, so that the rest of the script does not
// change.
func (r *random) fullReplicas(seed uint64) {
	own := &random{Rand: rand.New(rand.NewPCG(seed, 0x3e92)), s: r.s}
	var dress func(p *cluster.Pod)
	workload := ""
	for i := range r.s.Pods {
		p := &r.s.Pods[i]
		if p.Node != "" {
			continue
		}
		if name := p.Name[:max(0, strings.LastIndexByte(p.Name, '-'))]; name != workload {
			workload, dress = name, own.replica(*p, fmt.Sprint("replicas-", i))
		}
		dress(p)
	}
}

// replica returns the change that gives pods of a workload, of which p is the first,
// anti-affinity and a volume; most workloads do not change.
func (r *random) replica(p cluster.Pod, volume string) func(*cluster.Pod) {
	if !r.chance(15) {
		return func(*cluster.Pod) {}
	}
	each, kind, skew := r.chance(50), r.IntN(3), int32(1+r.IntN(2))
	alike := cluster.Selector{Namespaces: []string{p.Namespace}, Labels: cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{p.Labels["app"]}}}}
	return func(p *cluster.Pod) {
		v := cluster.Volume{ID: volume, Driver: driver, Shared: true}
		if each {
			v.ID += "-" + p.Name
		}
		p.Volumes = append(slices.Clip(p.Volumes), v)
		switch kind {
		case 0:
			p.AntiAffinity = append(slices.Clip(p.AntiAffinity), cluster.PodAffinityTerm{Key: cluster.LabelHostname, Selector: alike})
		case 1:
			p.Spreads = append(slices.Clip(p.Spreads), cluster.TopologySpreadConstraint{Key: cluster.LabelHostname, MaxSkew: skew, Selector: alike})
		default:
			p.Ports = append(slices.Clip(p.Ports), cluster.Port{Protocol: "TCP", Port: 9000})
		}
	}
}

// fullTerms gives some pending workloads a second required term of pod affinity, or a host port
// that overlaps with another of their own. It has its own random source; see fullReplicas.
func (r *random) fullTerms(seed uint64) {
	own := &random{Rand: rand.New(rand.NewPCG(seed, 0x7e45)), s: r.s}
	workload := ""
	var terms []cluster.PodAffinityTerm
	var ports []cluster.Port
	for i := range r.s.Pods {
		p := &r.s.Pods[i]
		if p.Node != "" {
			continue
		}
		if name := p.Name[:max(0, strings.LastIndexByte(p.Name, '-'))]; name != workload {
			workload, terms, ports = name, nil, nil
			if own.chance(8) {
				term := own.podTerm(*p, 70)
				term.Weight = 0
				terms = append(terms, term)
			}
			if len(p.Ports) > 0 && own.chance(30) {
				port := p.Ports[0]
				port.IP = own.oneOf("", "0.0.0.0", "127.0.0.1", "10.0.0.1")
				ports = append(ports, port)
			}
		}
		p.Affinity, p.Ports = slices.Concat(p.Affinity, terms), slices.Concat(p.Ports, ports)
	}
}

func (r *random) podDetails(pending bool) cluster.Pod {
	p := cluster.Pod{Labels: map[string]string{"app": r.oneOf("a", "b", "c")}}
	p.Namespace = r.oneOf("default", "default", "team-a", "team-b")
	if r.chance(50) {
		p.Labels["tier"] = r.oneOf("x", "y")
	}
	if r.chance(25) {
		p.Spreads = append(p.Spreads, r.spread(p))
	}
	if r.chance(8) {
		p.Spreads = append(p.Spreads, r.spread(p))
	}
	if r.chance(12) {
		p.Affinity = append(p.Affinity, r.podTerm(p, 70))
	}
	if r.chance(15) {
		p.AntiAffinity = append(p.AntiAffinity, r.podTerm(p, 70))
	}
	if r.chance(10) {
		p.Ports = append(p.Ports, r.port())
	}
	if r.chance(20) {
		p.Volumes = append(p.Volumes, r.volume())
	}
	for r.chance(15) {
		p.Preferred = append(p.Preferred, cluster.PreferredSchedulingTerm{Weight: int32(1 + r.IntN(100)), Term: cluster.Term{r.rule()}})
	}
	p.Virtual = pending && r.chance(6)
	p.Terminating = !pending && r.chance(15)
	return p
}

func (r *random) fullDaemons() {
	for i := range r.s.Daemons {
		for r.chance(25) {
			r.s.Daemons[i].Ports = append(r.s.Daemons[i].Ports, r.port())
		}
	}
}

func (r *random) port() cluster.Port {
	return cluster.Port{Protocol: r.oneOf("TCP", "TCP", "UDP"), IP: r.oneOf("", "", "0.0.0.0", "127.0.0.1", "10.0.0.1"), Port: int32(8080 + r.IntN(2))}
}

func (r *random) volume() cluster.Volume {
	v := cluster.Volume{ID: "vol" + fmt.Sprint(r.IntN(3)), Driver: r.oneOf(driver, driver, ""), Shared: r.chance(30)}
	for r.chance(35) {
		v.AnyOf = append(v.AnyOf, cluster.Term{{Key: cluster.LabelZone, Operator: constraint.In, Values: []string{r.oneOf("1", "2", "3")}}})
	}
	return v
}

func (r *random) topologyKey() string {
	return r.oneOf(cluster.LabelZone, cluster.LabelZone, cluster.LabelZone, cluster.LabelHostname, cluster.LabelHostname, "team", "arch", cluster.LabelCapacityType)
}

func (r *random) selector(p cluster.Pod, own int) cluster.Selector {
	s := cluster.Selector{Namespaces: []string{p.Namespace}}
	value := p.Labels["app"]
	if !r.chance(own) {
		value = r.oneOf("a", "b", "c")
	}
	switch r.IntN(8) {
	case 0:
		s.Labels = cluster.Term{{Key: "tier", Operator: constraint.Exists}}
	case 1:
		s.Labels = cluster.Term{{Key: "app", Operator: constraint.NotIn, Values: []string{r.oneOf("a", "b", "c")}}}
	default:
		s.Labels = cluster.Term{{Key: "app", Operator: constraint.In, Values: []string{value}}}
	}
	return s
}

func (r *random) spread(p cluster.Pod) cluster.TopologySpreadConstraint {
	return cluster.TopologySpreadConstraint{
		Key: r.topologyKey(), MaxSkew: int32(1 + r.IntN(2)), MinDomains: int32(max(0, r.IntN(8)-4)), Selector: r.selector(p, 80),
		Soft: r.chance(30), IgnoreAffinity: r.chance(20), HonorTaints: r.chance(20),
	}
}

func (r *random) podTerm(p cluster.Pod, own int) cluster.PodAffinityTerm {
	t := cluster.PodAffinityTerm{Key: r.topologyKey(), Selector: r.selector(p, own)}
	switch r.IntN(6) {
	case 0:
		t.Selector.Namespaces = []string{"team-a", "team-b"}
	case 1:
		t.Selector.Namespaces = nil
		t.Selector.NamespaceLabels = cluster.Term{{Key: "env", Operator: constraint.In, Values: []string{r.oneOf("prod", "test")}}}
	}
	if r.chance(35) {
		t.Weight = int32(1 + r.IntN(100))
	}
	return t
}
