// SPDX-License-Identifier: Apache-2.0

// Package disrupttest carries out the moves of disruption plans: its Cluster holds plain values
// beside the Builder that compiles them, so that a test can search, apply the moves, and search
// again.
//
// It does not check whether kube-scheduler would make a placement; enginetest.Check does. The
// zero Cluster is not usable; see New.
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

// Cluster is nodes and pods as values. Its methods also update the Builder, so it is changed
// through these only.
type Cluster struct {
	Builder *cluster.Builder
	Nodes   map[string]cluster.Node // by key
	Pods    map[string]cluster.Pod  // by UID
	// Types are the instance types of each node class, by its name.
	Types map[string][]offering.InstanceType
	Pools map[string]cluster.NodePool
	// Disruption is what disruption knows of nodes besides, by key. Nodes without an entry are
	// ready, and were launched and had their last pod event long ago.
	Disruption map[string]disrupt.Node
	// Launched counts the nodes launched so far, Evicted the pods that moved.
	Launched, Evicted int

	on map[string]map[string]bool // UIDs of pods by node name
}

// New returns an empty Cluster.
func New() *Cluster {
	return &Cluster{Builder: cluster.NewBuilder(), Nodes: map[string]cluster.Node{}, Pods: map[string]cluster.Pod{}, Types: map[string][]offering.InstanceType{},
		Pools: map[string]cluster.NodePool{}, Disruption: map[string]disrupt.Node{}, on: map[string]map[string]bool{}}
}

// Of is the Cluster of a script.
func Of(s *enginetest.Script) *Cluster {
	c := New()
	c.Builder = s.Builder()
	c.Types[enginetest.NodeClass] = s.Types
	for _, p := range s.Pools {
		c.Pools[p.Name] = p
	}
	for _, n := range s.Nodes {
		c.Nodes[n.Key] = n
	}
	for _, p := range s.Pods {
		c.index(p)
	}
	return c
}

// SetCatalog sets the instance types of a node class, without quota.
func (c *Cluster) SetCatalog(class string, types []offering.InstanceType) {
	c.Types[class] = types
	c.Builder.SetCatalog(class, types, nil)
}

// SetPool adds or replaces a pool.
func (c *Cluster) SetPool(p cluster.NodePool) {
	c.Pools[p.Name] = p
	c.Builder.SetPool(p)
}

// SetNode adds or replaces a node.
func (c *Cluster) SetNode(n cluster.Node) {
	c.Nodes[n.Key] = n
	c.Builder.SetNode(n)
}

// RemoveNode removes a node, and the pods that still run on it.
func (c *Cluster) RemoveNode(key string) {
	n := c.Nodes[key]
	delete(c.Nodes, key)
	delete(c.Disruption, key)
	c.Builder.RemoveNode(key)
	for uid := range maps.Clone(c.on[n.Name]) {
		c.RemovePod(uid)
	}
}

// SetPod adds or replaces a pod.
func (c *Cluster) SetPod(p cluster.Pod) {
	c.unindex(p.UID)
	c.index(p)
	c.Builder.SetPod(p)
}

// RemovePod removes a pod.
func (c *Cluster) RemovePod(uid string) {
	c.unindex(uid)
	c.Builder.RemovePod(uid)
}

func (c *Cluster) index(p cluster.Pod) {
	c.Pods[p.UID] = p
	if p.Node == "" {
		return
	}
	if c.on[p.Node] == nil {
		c.on[p.Node] = map[string]bool{}
	}
	c.on[p.Node][p.UID] = true
}

func (c *Cluster) unindex(uid string) {
	delete(c.on[c.Pods[uid].Node], uid)
	delete(c.Pods, uid)
}

// Price is what all nodes cost together, per hour.
func (c *Cluster) Price() offering.Price {
	var sum offering.Price
	for _, n := range c.Nodes {
		sum = sum.Add(n.Price)
	}
	return sum
}

// ForDisruption is what disruption reads besides the snapshot. Nodes are as Disruption says, and
// the eviction cost of their pods is 1 each unless it says something else.
func (c *Cluster) ForDisruption(now time.Time, pools []disrupt.Pool, settings disrupt.Settings) disrupt.Input {
	out := disrupt.Input{Now: now, Pools: pools, Settings: settings}
	for _, key := range slices.Sorted(maps.Keys(c.Nodes)) {
		n := c.Nodes[key]
		if n.Pool == "" || !n.HasNodeClaim {
			continue
		}
		d, known := c.Disruption[key]
		if !known {
			d = disrupt.Node{Ready: true, Created: now.Add(-1000 * time.Hour), LastPodEvent: now.Add(-1000 * time.Hour)}
			if n.Initialized {
				d.Initialized = d.Created
			}
		}
		d.Key, d.Name, d.Pool, d.MarkedForDeletion = key, n.Name, n.Pool, n.MarkedForDeletion
		d.Pods = 0
		for uid := range c.on[n.Name] {
			if c.Pods[uid].ReschedulableNow {
				d.Pods++
			}
		}
		if d.EvictionCost == 0 {
			d.EvictionCost = float64(d.Pods)
		}
		out.Nodes = append(out.Nodes, d)
	}
	return out
}

// Apply carries out the moves, one after the other: it launches their first offerings, binds pods
// where the moves plan them, and removes nodes. The error says what of a move is impossible: a
// node or pod that does not exist, or a pod that the move does not place.
func (c *Cluster) Apply(moves []disrupt.Move) error {
	for _, m := range moves {
		if err := c.apply(m); err != nil {
			return fmt.Errorf("move of %v: %w", m.Nodes, err)
		}
	}
	return nil
}

func (c *Cluster) apply(m disrupt.Move) error {
	for _, r := range m.Nominations {
		n, ok := c.Nodes[r.Node]
		if !ok {
			return fmt.Errorf("node %s does not exist", r.Node)
		}
		if err := c.bind(r.Pods, n.Name); err != nil {
			return err
		}
	}
	for _, l := range m.Launches {
		n, err := c.Launch(l)
		if err != nil {
			return err
		}
		if err := c.bind(l.Pods, n.Name); err != nil {
			return err
		}
	}
	for _, key := range m.Nodes {
		n, ok := c.Nodes[key]
		if !ok {
			return fmt.Errorf("node %s does not exist", key)
		}
		for uid := range c.on[n.Name] {
			if c.Pods[uid].ReschedulableNow {
				return fmt.Errorf("pod %s is not placed", uid)
			}
		}
		c.RemoveNode(key)
	}
	return nil
}

func (c *Cluster) bind(pods []cluster.PodRef, node string) error {
	for _, ref := range pods {
		p, ok := c.Pods[ref.UID]
		if !ok {
			return fmt.Errorf("pod %s does not exist", ref.UID)
		}
		p.Node, p.Terminating, p.ReschedulableNow = node, false, true
		c.SetPod(p)
		c.Evicted++
	}
	return nil
}

// Launch adds the node that a launch becomes with its first offering.
func (c *Cluster) Launch(l schedule.Launch) (cluster.Node, error) {
	pool := c.Pools[l.Pool]
	t, o, err := c.offered(pool.NodeClass, l.Offerings[0])
	if err != nil {
		return cluster.Node{}, err
	}
	c.Launched++
	name := fmt.Sprintf("launched-%05d", c.Launched)
	n := cluster.Node{Key: name, Name: name, Pool: l.Pool, HasNodeClaim: true, Initialized: true, Labels: labelsOf(t, o, l), Taints: l.Taints,
		Capacity: t.Capacity, Allocatable: t.Capacity.Sub(t.Overhead), QuotaUses: o.QuotaUses, Price: o.Price}
	n.Labels[cluster.LabelHostname], n.Labels[cluster.LabelNodePool] = name, l.Pool
	c.SetNode(n)
	return n, nil
}

func (c *Cluster) offered(class string, ref offering.Ref) (*offering.InstanceType, *offering.Offering, error) {
	for i := range c.Types[class] {
		t := &c.Types[class][i]
		if t.Name != ref.Type {
			continue
		}
		for j := range t.Offerings {
			if o := &t.Offerings[j]; o.Zone == ref.Zone && o.CapacityType == ref.CapacityType && o.Price == ref.Price {
				return t, o, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("%s in zone %s as %s is not offered", ref.Type, ref.Zone, ref.CapacityType)
}

// labelsOf are the labels of the launched node: of several possible values, the first that the
// launch's rules admit.
func labelsOf(t *offering.InstanceType, o *offering.Offering, l schedule.Launch) map[string]string {
	out := map[string]string{}
	pick := func(labels map[string][]string) {
		for key, values := range labels {
			for _, v := range values {
				if admitted(l.Rules, key, v) {
					out[key] = v
					break
				}
			}
		}
	}
	pick(t.Labels)
	pick(o.Labels)
	maps.Copy(out, l.Labels)
	out[cluster.LabelInstanceType], out[cluster.LabelZone], out[cluster.LabelCapacityType] = t.Name, o.Zone, o.CapacityType
	return out
}

func admitted(rules []constraint.Rule, key, value string) bool {
	interner := constraint.NewInterner()
	for _, r := range rules {
		if r.Key != key {
			continue
		}
		set, err := interner.Set([]constraint.Rule{r})
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

// Script is the Cluster as a script, to be printed or checked. It copies from like what a Cluster
// does not hold: DaemonSets, namespaces, settings and quotas.
func (c *Cluster) Script(like *enginetest.Script) *enginetest.Script {
	s := *like
	s.Nodes, s.Pods = nil, nil
	for _, key := range slices.Sorted(maps.Keys(c.Nodes)) {
		s.Nodes = append(s.Nodes, c.Nodes[key])
	}
	for _, p := range c.Pods {
		s.Pods = append(s.Pods, p)
	}
	slices.SortFunc(s.Pods, func(x, y cluster.Pod) int { return cmp.Compare(x.UID, y.UID) })
	return &s
}
