// SPDX-License-Identifier: Apache-2.0

// Package disrupttest lets plans about nodes come true: a Fleet is a cluster kept as
// plain values beside the Builder that compiles it, so that a search can be followed by
// what it asks for, and by the next search.
//
// It refuses to judge: whether a placement is one that kube-scheduler would make is for
// enginetest.Check. The zero Fleet is not usable; see New.
package disrupttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// Fleet is a cluster. Change it through its methods only: Builder is told of everything.
type Fleet struct {
	Builder *cluster.Builder
	Nodes   map[string]cluster.Node // by key
	Pods    map[string]cluster.Pod  // by UID
	// Types are what the node class of that name sells.
	Types map[string][]offering.InstanceType
	Pools map[string]cluster.NodePool
	// Details are what disruption knows of nodes besides; by key. Nodes without an entry
	// are old, ready and quiet.
	Details map[string]disrupt.Node
	// Bought counts the machines so far, Evicted the pods that moved.
	Bought, Evicted int

	on map[string]map[string]bool // UIDs of pods by node name
}

// New returns an empty Fleet.
func New() *Fleet {
	return &Fleet{Builder: cluster.NewBuilder(), Nodes: map[string]cluster.Node{}, Pods: map[string]cluster.Pod{}, Types: map[string][]offering.InstanceType{},
		Pools: map[string]cluster.NodePool{}, Details: map[string]disrupt.Node{}, on: map[string]map[string]bool{}}
}

// Of is the Fleet of a script.
func Of(s *enginetest.Script) *Fleet {
	f := New()
	f.Builder = s.Builder()
	f.Types[enginetest.NodeClass] = s.Types
	for _, p := range s.Pools {
		f.Pools[p.Name] = p
	}
	for _, n := range s.Nodes {
		f.Nodes[n.Key] = n
	}
	for _, p := range s.Pods {
		f.note(p)
	}
	return f
}

// SetCatalog says what a node class sells, without quota.
func (f *Fleet) SetCatalog(class string, types []offering.InstanceType) {
	f.Types[class] = types
	f.Builder.SetCatalog(class, types, nil)
}

// SetPool adds or replaces a pool.
func (f *Fleet) SetPool(p cluster.NodePool) {
	f.Pools[p.Name] = p
	f.Builder.SetPool(p)
}

// SetNode adds or replaces a node.
func (f *Fleet) SetNode(n cluster.Node) {
	f.Nodes[n.Key] = n
	f.Builder.SetNode(n)
}

// RemoveNode takes a node away, and with it the pods that nobody moved.
func (f *Fleet) RemoveNode(key string) {
	n := f.Nodes[key]
	delete(f.Nodes, key)
	delete(f.Details, key)
	f.Builder.RemoveNode(key)
	for uid := range maps.Clone(f.on[n.Name]) {
		f.RemovePod(uid)
	}
}

// SetPod adds or replaces a pod.
func (f *Fleet) SetPod(p cluster.Pod) {
	f.forget(p.UID)
	f.note(p)
	f.Builder.SetPod(p)
}

// RemovePod takes a pod away.
func (f *Fleet) RemovePod(uid string) {
	f.forget(uid)
	f.Builder.RemovePod(uid)
}

func (f *Fleet) note(p cluster.Pod) {
	f.Pods[p.UID] = p
	if p.Node == "" {
		return
	}
	if f.on[p.Node] == nil {
		f.on[p.Node] = map[string]bool{}
	}
	f.on[p.Node][p.UID] = true
}

func (f *Fleet) forget(uid string) {
	delete(f.on[f.Pods[uid].Node], uid)
	delete(f.Pods, uid)
}

// Price is what all nodes cost together, per hour.
func (f *Fleet) Price() offering.Price {
	var sum offering.Price
	for _, n := range f.Nodes {
		sum = sum.Add(n.Price)
	}
	return sum
}

// Cluster is what disruption reads besides the World: nodes are old, ready and quiet and
// their pods cost 1 each to evict, unless Details says something else of a node.
func (f *Fleet) Cluster(now time.Time, pools []disrupt.Pool, settings disrupt.Settings) disrupt.Cluster {
	c := disrupt.Cluster{Now: now, Pools: pools, Settings: settings}
	for _, key := range slices.Sorted(maps.Keys(f.Nodes)) {
		n := f.Nodes[key]
		if n.Pool == "" || !n.Claim {
			continue
		}
		d, known := f.Details[key]
		if !known {
			d = disrupt.Node{Ready: true, Created: now.Add(-1000 * time.Hour), QuietSince: now.Add(-1000 * time.Hour)}
			if n.Initialized {
				d.Initialized = d.Created
			}
		}
		d.Key, d.Name, d.Pool, d.Leaving = key, n.Name, n.Pool, n.Leaving
		d.Pods = 0
		for uid := range f.on[n.Name] {
			if f.Pods[uid].Movable {
				d.Pods++
			}
		}
		if d.Cost == 0 {
			d.Cost = float64(d.Pods)
		}
		c.Nodes = append(c.Nodes, d)
	}
	return c
}

// Apply lets the moves come true, one after the other: machines are bought as the first
// choices, pods are bound where the moves say, nodes go. The error says what of a move
// cannot be: a node or pod that is not there, a pod that is left behind.
func (f *Fleet) Apply(moves []disrupt.Move) error {
	for _, m := range moves {
		if err := f.apply(m); err != nil {
			return fmt.Errorf("move of %v: %w", m.Nodes, err)
		}
	}
	return nil
}

func (f *Fleet) apply(m disrupt.Move) error {
	for _, home := range m.Receivers {
		n, ok := f.Nodes[home.Node]
		if !ok {
			return fmt.Errorf("node %s does not exist", home.Node)
		}
		if err := f.bind(home.Pods, n.Name); err != nil {
			return err
		}
	}
	for _, l := range m.Launches {
		n, err := f.Buy(l)
		if err != nil {
			return err
		}
		if err := f.bind(l.Pods, n.Name); err != nil {
			return err
		}
	}
	for _, key := range m.Nodes {
		n, ok := f.Nodes[key]
		if !ok {
			return fmt.Errorf("node %s does not exist", key)
		}
		for uid := range f.on[n.Name] {
			if f.Pods[uid].Movable {
				return fmt.Errorf("pod %s is left behind", uid)
			}
		}
		f.RemoveNode(key)
	}
	return nil
}

func (f *Fleet) bind(pods []cluster.PodRef, node string) error {
	for _, ref := range pods {
		p, ok := f.Pods[ref.UID]
		if !ok {
			return fmt.Errorf("pod %s does not exist", ref.UID)
		}
		p.Node, p.Terminating, p.Movable = node, false, true
		f.SetPod(p)
		f.Evicted++
	}
	return nil
}

// Buy adds the machine that a launch becomes as its first choice.
func (f *Fleet) Buy(l schedule.Launch) (cluster.Node, error) {
	pool := f.Pools[l.Pool]
	t, o, err := f.onSale(pool.Class, l.Offerings[0])
	if err != nil {
		return cluster.Node{}, err
	}
	f.Bought++
	name := fmt.Sprintf("bought-%05d", f.Bought)
	n := cluster.Node{Key: name, Name: name, Pool: l.Pool, Claim: true, Initialized: true, Labels: labelsOf(t, o, l), Taints: l.Taints,
		Capacity: t.Capacity, Allocatable: t.Capacity.Sub(t.Overhead), QuotaUses: o.QuotaUses, Price: o.Price}
	n.Labels[cluster.LabelHostname], n.Labels[cluster.LabelPool] = name, l.Pool
	f.SetNode(n)
	return n, nil
}

func (f *Fleet) onSale(class string, c offering.Ref) (*offering.InstanceType, *offering.Offering, error) {
	for i := range f.Types[class] {
		t := &f.Types[class][i]
		if t.Name != c.Type {
			continue
		}
		for j := range t.Offerings {
			if o := &t.Offerings[j]; o.Zone == c.Zone && o.CapacityType == c.CapacityType && o.Price == c.Price {
				return t, o, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("%s in zone %s as %s is not on sale", c.Type, c.Zone, c.CapacityType)
}

// labelsOf are the labels of the machine: of several values that are possible the first
// that the launch's rules admit.
func labelsOf(t *offering.InstanceType, o *offering.Offering, l schedule.Launch) map[string]string {
	out := map[string]string{}
	settle := func(labels map[string][]string) {
		for key, values := range labels {
			for _, v := range values {
				if admitted(l.Rules, key, v) {
					out[key] = v
					break
				}
			}
		}
	}
	settle(t.Labels)
	settle(o.Labels)
	maps.Copy(out, l.Labels)
	out[cluster.LabelInstanceType], out[cluster.LabelZone], out[cluster.LabelCapacityType] = t.Name, o.Zone, o.CapacityType
	return out
}

func admitted(rules []constraint.Rule, key, value string) bool {
	space := constraint.NewSpace()
	for _, r := range rules {
		if r.Key != key {
			continue
		}
		set, err := space.Set([]constraint.Rule{r})
		if err != nil {
			return false
		}
		for _, q := range set {
			if !q.Admits(q.Key.ID(value)) {
				return false
			}
		}
	}
	return true
}

// Script is the Fleet as a script, to be printed or checked; like has what a Fleet does
// not know: daemons, namespaces, settings and quota.
func (f *Fleet) Script(like *enginetest.Script) *enginetest.Script {
	s := *like
	s.Nodes, s.Pods = nil, nil
	for _, key := range slices.Sorted(maps.Keys(f.Nodes)) {
		s.Nodes = append(s.Nodes, f.Nodes[key])
	}
	for _, p := range f.Pods {
		s.Pods = append(s.Pods, p)
	}
	slices.SortFunc(s.Pods, func(x, y cluster.Pod) int { return cmp.Compare(x.UID, y.UID) })
	return &s
}
