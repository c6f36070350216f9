package enginetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// driver is the CSI driver of random volumes.
const driver = "disk.csi.example.com"

// RandomFull is Random with every semantic mixed in: spread, pod affinity both ways
// with selectors that reach other workloads and namespaces, ports, volumes and
// attach limits, devices, preferences, minValues, reservations, static pools, virtual and
// terminating pods, and nodes in every state.
func RandomFull(seed uint64, pods int) *Script {
	s := Random(seed, pods)
	r := &random{Rand: rand.New(rand.NewPCG(seed, 0xf011)), s: s}
	s.Namespaces = map[string]map[string]string{"default": {}, "team-a": {"env": "prod"}, "team-b": {"env": "test"}}
	s.Settings = world.Settings{Preferences: world.PreferencePolicy(r.oneOf("", string(world.Respect), string(world.Ignore))), Surplus: []int{0, 100, 1000, world.UnlimitedSurplus}[r.IntN(4)], RelaxMinValues: r.often(50)}
	r.fullTypes()
	r.fullPools()
	r.fullVariety(seed)
	r.fullNodes()
	r.fullPods()
	r.fullReplicas(seed)
	r.fullDaemons()
	r.fullResources(seed)
	return s
}

func (r *random) fullTypes() {
	for i := range r.s.Types {
		t := &r.s.Types[i]
		if r.often(40) {
			t.Capacity[quantity.Attachable+driver] = int64(1 + r.IntN(4))
		}
		if r.often(25) && len(t.Offers) > 0 {
			id := fmt.Sprint("r", i)
			r.s.Budgets[reservation(id)] = int64(r.IntN(4))
			o := offer.Offer{Zone: t.Offers[0].Zone, CapacityType: offer.Reserved, Price: t.Offers[0].Price / 100, Draws: []offer.Draw{{Budget: reservation(id), Amount: 1}}}
			labelOffer(&o, LabelReservation, id)
			t.Offers = append(t.Offers, o)
		}
	}
}

func (r *random) fullPools() {
	for i := range r.s.Pools {
		p := &r.s.Pools[i]
		p.Static = r.often(8)
		if r.often(15) {
			p.Requirements = append(p.Requirements, constraint.Rule{Key: r.oneOf(world.LabelInstanceType, world.LabelZone, "arch"), Operator: constraint.Exists, MinValues: 2})
		}
	}
}

func (r *random) fullNodes() {
	for i := range r.s.Nodes {
		n := &r.s.Nodes[i]
		n.Stuck = r.often(10)
		if r.often(20) { // not managed by any pool
			n.Pool, n.Claim, n.Initialized = "", false, true
			delete(n.Labels, world.LabelPool)
		}
		if r.often(20) {
			delete(n.Labels, world.LabelZone)
		}
		if r.often(40) {
			n.Labels["team"] = r.oneOf("red", "blue")
		}
		if r.often(40) {
			n.Allocatable[quantity.Attachable+driver] = int64(r.IntN(4))
		}
		if r.often(10) && n.Claim && !n.Leaving {
			r.unregister(n)
		}
	}
}

// unregister makes a node one that is still on its way: nothing is bound to it.
func (r *random) unregister(n *world.Node) {
	for i := range r.s.Pods {
		if r.s.Pods[i].Node == n.Name {
			r.s.Pods[i].Node, r.s.Pods[i].Movable, r.s.Pods[i].Daemon = "", false, ""
		}
	}
	n.Name, n.Initialized, n.Stuck = "", false, false
	delete(n.Labels, world.LabelHostname)
}

// fullPods decorates whole workloads, so that pods stay alike, and bound pods one by one.
func (r *random) fullPods() {
	var last world.Pod
	workload := ""
	for i := range r.s.Pods {
		p := &r.s.Pods[i]
		name := p.Name[:max(0, strings.LastIndexByte(p.Name, '-'))]
		if p.Node != "" || name != workload {
			last = r.decoration(p.Node == "")
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

// fullReplicas has replicas that wait keep apart and mount volumes that others may mount too: one
// together, or each its own. It draws from a source of its own, so that worlds are otherwise what
// they were without it.
func (r *random) fullReplicas(seed uint64) {
	own := &random{Rand: rand.New(rand.NewPCG(seed, 0x3e92)), s: r.s}
	var dress func(p *world.Pod)
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

// replica is what makes pods of a workload, of which p is the first, keep apart and mount a
// volume; most are left as they are.
func (r *random) replica(p world.Pod, volume string) func(*world.Pod) {
	if !r.often(15) {
		return func(*world.Pod) {}
	}
	each, kind, skew := r.often(50), r.IntN(3), int32(1+r.IntN(2))
	alike := world.Selector{Namespaces: []string{p.Namespace}, Labels: world.Term{{Key: "app", Operator: constraint.In, Values: []string{p.Labels["app"]}}}}
	return func(p *world.Pod) {
		v := world.Volume{ID: volume, Driver: driver, Shared: true}
		if each {
			v.ID += "-" + p.Name
		}
		p.Volumes = append(slices.Clip(p.Volumes), v)
		switch kind {
		case 0:
			p.AntiAffinity = append(slices.Clip(p.AntiAffinity), world.PodTerm{Key: world.LabelHostname, Select: alike})
		case 1:
			p.Spreads = append(slices.Clip(p.Spreads), world.Spread{Key: world.LabelHostname, MaxSkew: skew, Select: alike})
		default:
			p.Ports = append(slices.Clip(p.Ports), world.Port{Protocol: "TCP", Port: 9000})
		}
	}
}

func (r *random) decoration(pending bool) world.Pod {
	p := world.Pod{Labels: map[string]string{"app": r.oneOf("a", "b", "c")}}
	p.Namespace = r.oneOf("default", "default", "team-a", "team-b")
	if r.often(50) {
		p.Labels["tier"] = r.oneOf("x", "y")
	}
	if r.often(25) {
		p.Spreads = append(p.Spreads, r.spread(p))
	}
	if r.often(8) {
		p.Spreads = append(p.Spreads, r.spread(p))
	}
	if r.often(12) {
		p.Affinity = append(p.Affinity, r.podTerm(p, 70))
	}
	if r.often(15) {
		p.AntiAffinity = append(p.AntiAffinity, r.podTerm(p, 70))
	}
	if r.often(10) {
		p.Ports = append(p.Ports, r.port())
	}
	if r.often(20) {
		p.Volumes = append(p.Volumes, r.volume())
	}
	for r.often(15) {
		p.Preferred = append(p.Preferred, world.Preference{Weight: int32(1 + r.IntN(100)), Term: world.Term{r.rule()}})
	}
	p.Virtual = pending && r.often(6)
	p.Terminating = !pending && r.often(15)
	return p
}

func (r *random) fullDaemons() {
	for i := range r.s.Daemons {
		for r.often(25) {
			r.s.Daemons[i].Ports = append(r.s.Daemons[i].Ports, r.port())
		}
	}
}

func (r *random) port() world.Port {
	return world.Port{Protocol: r.oneOf("TCP", "TCP", "UDP"), IP: r.oneOf("", "", "0.0.0.0", "127.0.0.1", "10.0.0.1"), Port: int32(8080 + r.IntN(2))}
}

func (r *random) volume() world.Volume {
	v := world.Volume{ID: "vol" + fmt.Sprint(r.IntN(3)), Driver: r.oneOf(driver, driver, ""), Shared: r.often(30)}
	for r.often(35) {
		v.AnyOf = append(v.AnyOf, world.Term{{Key: world.LabelZone, Operator: constraint.In, Values: []string{r.oneOf("1", "2", "3")}}})
	}
	return v
}

func (r *random) topologyKey() string {
	return r.oneOf(world.LabelZone, world.LabelZone, world.LabelZone, world.LabelHostname, world.LabelHostname, "team", "arch", world.LabelCapacityType)
}

func (r *random) selector(p world.Pod, own int) world.Selector {
	s := world.Selector{Namespaces: []string{p.Namespace}}
	value := p.Labels["app"]
	if !r.often(own) {
		value = r.oneOf("a", "b", "c")
	}
	switch r.IntN(8) {
	case 0:
		s.Labels = world.Term{{Key: "tier", Operator: constraint.Exists}}
	case 1:
		s.Labels = world.Term{{Key: "app", Operator: constraint.NotIn, Values: []string{r.oneOf("a", "b", "c")}}}
	default:
		s.Labels = world.Term{{Key: "app", Operator: constraint.In, Values: []string{value}}}
	}
	return s
}

func (r *random) spread(p world.Pod) world.Spread {
	return world.Spread{
		Key: r.topologyKey(), MaxSkew: int32(1 + r.IntN(2)), MinDomains: int32(max(0, r.IntN(8)-4)), Select: r.selector(p, 80),
		Soft: r.often(30), IgnoreAffinity: r.often(20), HonorTaints: r.often(20),
	}
}

func (r *random) podTerm(p world.Pod, own int) world.PodTerm {
	t := world.PodTerm{Key: r.topologyKey(), Select: r.selector(p, own)}
	switch r.IntN(6) {
	case 0:
		t.Select.Namespaces = []string{"team-a", "team-b"}
	case 1:
		t.Select.Namespaces = nil
		t.Select.NamespaceLabels = world.Term{{Key: "env", Operator: constraint.In, Values: []string{r.oneOf("prod", "test")}}}
	}
	if r.often(35) {
		t.Weight = int32(1 + r.IntN(100))
	}
	return t
}
