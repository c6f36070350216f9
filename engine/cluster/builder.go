// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Builder keeps a Snapshot current from single changes in any order: a pod may name a node,
// and a pool a catalog, that is not known yet. It groups pods into classes and interns
// labels as they arrive, so that Snapshot needs no rebuild. It is not safe for concurrent
// use: its owner serialises calls.
type Builder struct {
	space     *constraint.Space
	podLabels *constraint.Space
	resources *quantity.Space
	settings  Settings

	shapes        map[string]*PodShape
	classes       map[string]*PodClass
	selectors     map[string]*PodSelector
	selectorByID  []*PodSelector
	freeSelectors []int                     // ids to use again
	anchored      map[string][]*PodSelector // by anchor
	labelled      map[string][]*PodClass    // by label and value that some selector may anchor on
	terms         antiAffinityTerms
	mentioned     map[string]int  // pod labels that selectors ask or asked for: how many classes do
	former        map[string]bool // of mentioned, those with no class left; see unmention
	namespaces    map[string]map[string]string

	pods         map[string]*pod      // by UID
	places       map[string]*place    // by node name
	nodes        map[string]*NodeInfo // by key
	pools        map[string]NodePool  // by name
	daemons      map[string]*daemon
	catalogs     map[string]catalog      // by node class
	poolCatalogs map[string]*PoolCatalog // by pool

	labelsInUse map[*constraint.Key]int       // how many nodes have each label
	queue       map[*PodClass]bool            // classes with unbound pods
	leaving     map[*NodeInfo]bool            // nodes whose movable pods need replacements elsewhere
	drawing     map[*NodeInfo]bool            // nodes that the cloud does not count against quota yet
	holding     map[string]holding            // by pool
	stale       map[*NodeInfo]bool            // nodes whose Free must be computed again
	order       []*NodeInfo                   // nodes that take pods, in order; nil when out of date
	stuck       []*NodeInfo                   // unschedulable nodes; computed with order
	indexes     map[string]*NodeIndex         // of order, by label keys
	turn        int                           // number of Snapshots handed out
	moved       []*PodClass                   // classes whose Pods last listed pods of leaving nodes
	asking      map[string]map[*PodShape]bool // extended resources, by the shapes that ask for them
	scratch     signature
}

// pod is what the Builder keeps of a Pod. The class holds everything that decisions look at;
// a copy per pod would double the memory of a large cluster.
type pod struct {
	PodRef
	created int64 // ns since 1970
	class   *PodClass
	place   *place // nil while pending
	slot    int    // index in place.pods or class.waiting
	labels  map[string]string
	daemon  string
	movable bool
	dying   bool
	placed  bool // a WhatIf placed it on a node that is kept
}

// place is a node name with the pods bound to it, whether or not the node is known.
type place struct {
	name string
	host *NodeInfo
	pods []*pod
}

type daemon struct {
	DaemonSet
	requests     quantity.Vector
	alternatives []constraint.Set
	tolerations  []Toleration
}

type catalog struct {
	compiled *offering.Catalog
	budgets  map[string]int64
}

// NewBuilder returns a Builder of the empty Snapshot.
func NewBuilder() *Builder {
	return &Builder{
		space: constraint.NewSpace(), podLabels: constraint.NewSpace(), resources: quantity.NewSpace(),
		shapes: map[string]*PodShape{}, classes: map[string]*PodClass{}, selectors: map[string]*PodSelector{}, anchored: map[string][]*PodSelector{}, labelled: map[string][]*PodClass{}, terms: antiAffinityTerms{byKey: map[string]*AntiAffinityTerm{}},
		mentioned: map[string]int{}, former: map[string]bool{}, namespaces: map[string]map[string]string{},
		pods: map[string]*pod{}, places: map[string]*place{}, nodes: map[string]*NodeInfo{}, pools: map[string]NodePool{},
		daemons: map[string]*daemon{}, catalogs: map[string]catalog{}, poolCatalogs: map[string]*PoolCatalog{}, labelsInUse: map[*constraint.Key]int{},
		queue: map[*PodClass]bool{}, leaving: map[*NodeInfo]bool{}, drawing: map[*NodeInfo]bool{}, holding: map[string]holding{}, stale: map[*NodeInfo]bool{}, indexes: map[string]*NodeIndex{}, asking: map[string]map[*PodShape]bool{},
	}
}

// SetPod adds or replaces the pod with that UID: pending when pod.Node is empty, else bound.
func (b *Builder) SetPod(p Pod) {
	c := b.class(&p)
	c.pods++ // keeps the class while the previous version of the pod is removed
	b.RemovePod(p.UID)
	c.pods--
	entry := &pod{PodRef: p.PodRef, created: p.Created.UnixNano(), class: c, labels: p.Labels, daemon: p.DaemonSet, movable: p.Movable, dying: p.Terminating}
	if p.Node != "" {
		entry.place = b.place(p.Node)
	}
	b.pods[p.UID] = entry
	b.join(entry)
}

// RemovePod forgets the pod with that UID.
func (b *Builder) RemovePod(uid string) {
	p := b.pods[uid]
	if p == nil {
		return
	}
	delete(b.pods, uid)
	b.leave(p)
	if p.class.pods == 0 {
		b.dismiss(p.class)
	}
	if p.place != nil && p.place.host == nil && len(p.place.pods) == 0 {
		delete(b.places, p.place.name)
	}
}

func (b *Builder) place(name string) *place {
	at := b.places[name]
	if at == nil {
		at = &place{name: name}
		b.places[name] = at
	}
	return at
}

// join counts the pod in its class and at its place.
func (b *Builder) join(p *pod) {
	p.class.pods++
	if p.place == nil {
		p.slot = len(p.class.waiting)
		p.class.waiting = append(p.class.waiting, p)
		p.class.changed = true
		b.queue[p.class] = true
		return
	}
	p.slot = len(p.place.pods)
	p.place.pods = append(p.place.pods, p)
	n := p.class.on[p.place]
	p.class.on[p.place] = n.plus(p, 1)
	b.touch(p.place)
}

// leave undoes join.
func (b *Builder) leave(p *pod) {
	p.class.pods--
	if p.place == nil {
		p.class.waiting = without(p.class.waiting, p.slot)
		p.class.changed = true
		if len(p.class.waiting) == 0 {
			delete(b.queue, p.class)
		}
		return
	}
	p.place.pods = without(p.place.pods, p.slot)
	n := p.class.on[p.place].plus(p, -1)
	p.class.on[p.place] = n
	if n.pods == 0 {
		delete(p.class.on, p.place)
	}
	b.touch(p.place)
}

func (n headcount) plus(p *pod, by int32) headcount {
	n.pods += by
	if p.dying {
		n.dying += by
	}
	return n
}

// without removes the pod at slot and moves the last one there.
func without(pods []*pod, slot int) []*pod {
	last := len(pods) - 1
	pods[slot] = pods[last]
	pods[slot].slot = slot
	pods[last] = nil
	return pods[:last]
}

// touch marks the node at a place as stale.
func (b *Builder) touch(at *place) {
	if at.host != nil {
		b.stale[at.host] = true
	}
}

// SetNode adds or replaces the node with that key. Bound pods refer to it by Node.Name. An
// unchanged node costs nothing, because kubelets report again and again.
func (b *Builder) SetNode(n Node) {
	if old := b.nodes[n.Key]; old != nil && reflect.DeepEqual(old.Node, n) {
		return
	}
	b.RemoveNode(n.Key)
	h := &NodeInfo{Node: n, Index: -1, at: -1}
	b.nodes[n.Key] = h
	b.stale[h] = true
	b.order = nil
	b.hold(h, 1)
	b.offer(&h.Node, 1)
	if n.Leaving {
		b.leaving[h] = true
	}
	if len(n.QuotaUses) > 0 {
		b.drawing[h] = true
	}
	if n.Name != "" {
		h.place = b.place(n.Name)
		h.place.host = h
	}
}

// RemoveNode forgets the node with that key.
func (b *Builder) RemoveNode(key string) {
	h := b.nodes[key]
	if h == nil {
		return
	}
	delete(b.nodes, key)
	delete(b.stale, h)
	delete(b.leaving, h)
	delete(b.drawing, h)
	b.order = nil
	b.hold(h, -1)
	b.offer(&h.Node, -1)
	b.wear(h, -1)
	if at := h.place; at != nil && at.host == h {
		at.host = nil
		if h.Leaving {
			b.stays(at)
		}
		if len(at.pods) == 0 {
			delete(b.places, at.name)
		}
	}
}

// holding is what a pool's nodes and NodeClaims count against its limits.
type holding struct {
	nodes    int
	capacity quantity.Amounts
}

// hold adds the node to its pool's holding, or subtracts it.
func (b *Builder) hold(h *NodeInfo, by int) {
	if h.Pool == "" {
		return
	}
	sum := b.holding[h.Pool]
	sum.nodes += by
	if by > 0 {
		sum.capacity = sum.capacity.Add(h.Capacity)
	} else {
		sum.capacity = sum.capacity.Sub(h.Capacity)
	}
	b.holding[h.Pool] = sum
	if sum.nodes == 0 {
		delete(b.holding, h.Pool)
	}
}

// SetPool adds or replaces a pool.
func (b *Builder) SetPool(p NodePool) {
	b.RemovePool(p.Name)
	b.askFor(p.Limits, 1)
	b.pools[p.Name] = p
}

// RemovePool forgets a pool.
func (b *Builder) RemovePool(name string) {
	b.askFor(b.pools[name].Limits, -1)
	delete(b.pools, name)
	delete(b.poolCatalogs, name)
}

// SetDaemon adds or replaces a DaemonSet by UID. A DaemonSet with invalid constraints runs
// on no node: the DaemonSet controller could not place its pods either.
func (b *Builder) SetDaemon(d DaemonSet) {
	b.RemoveDaemon(d.UID)
	entry := &daemon{DaemonSet: d, tolerations: d.Tolerations}
	entry.measure(b.resources)
	b.askFor(d.Requests, 1)
	entry.alternatives, _ = b.alternatives(d.Required, d.AnyOf)
	b.daemons[d.UID] = entry
	b.daemonsChanged()
}

// RemoveDaemon forgets the DaemonSet with that UID.
func (b *Builder) RemoveDaemon(uid string) {
	old, ok := b.daemons[uid]
	if !ok {
		return
	}
	b.askFor(old.Requests, -1)
	delete(b.daemons, uid)
	b.daemonsChanged()
}

func (b *Builder) daemonsChanged() {
	clear(b.poolCatalogs)
	for _, h := range b.nodes {
		b.stale[h] = true
	}
}

// SetCatalog sets the instance types of a node class and the remaining quotas. The types must
// not change afterwards; passing the same slice again is free.
func (b *Builder) SetCatalog(class string, types []offering.InstanceType, budgets map[string]int64) {
	old := b.catalogs[class]
	entry := catalog{compiled: old.compiled, budgets: budgets}
	if old.compiled == nil || !sameTypes(old.compiled, types) {
		entry.compiled = offering.Compile(b.space, b.resources, types)
		b.sell(old.compiled, -1)
		b.sell(entry.compiled, 1)
		for name, p := range b.pools {
			if p.Class == class {
				delete(b.poolCatalogs, name)
			}
		}
	}
	b.catalogs[class] = entry
}

// sell counts the resources that the instance types of a catalog offer, or subtracts them.
func (b *Builder) sell(c *offering.Catalog, by int) {
	if c == nil {
		return
	}
	for i := range c.Types {
		b.resources.Offer(quantity.Catalogs, c.Types[i].Capacity, by)
	}
}

func sameTypes(c *offering.Catalog, types []offering.InstanceType) bool {
	return c.Source != nil && len(types) > 0 && len(c.Source) == len(types) && &c.Source[0] == &types[0]
}

// SetNamespace adds or replaces a namespace: selectors may ask for its labels.
func (b *Builder) SetNamespace(name string, labels map[string]string) {
	b.namespaces[name] = labels
	b.regroup()
}

// RemoveCatalog forgets the instance types of a node class: its pools have no offerings.
func (b *Builder) RemoveCatalog(class string) {
	delete(b.catalogs, class)
	for name, p := range b.pools {
		if p.Class == class {
			delete(b.poolCatalogs, name)
		}
	}
}

// RemoveNamespace forgets a namespace.
func (b *Builder) RemoveNamespace(name string) {
	delete(b.namespaces, name)
	b.regroup()
}

// SetSettings sets the operator's settings.
func (b *Builder) SetSettings(s Settings) { b.settings = s }

// Snapshot returns the current snapshot. It is valid until the next change.
func (b *Builder) Snapshot() *Snapshot {
	b.unmention()
	b.forgetIndexes()
	b.measure()
	w := &Snapshot{
		Space: b.space, Resources: b.resources, Catalogs: b.compilePoolCatalogs(),
		Nodes: b.hosts(), Unschedulable: b.stuck, Classes: b.pending(), AntiAffinityTerms: b.terms.inOrder(),
		QuotaLeft: b.budgets(), Settings: b.settings, labelsInUse: b.labelsInUse, indexes: b.indexes, builder: b,
	}
	return w
}

// Interned is how many labels and values the Builder keeps an ID for, including unused ones:
// IDs are not reused. When most of them are unused, a new Builder that gets the same objects
// needs less memory, and its Snapshot is the same.
func (b *Builder) Interned() int { return b.space.Len() + b.podLabels.Len() + len(b.selectorByID) }

// Load is the number of pods, nodes, classes and selectors in the Snapshot.
func (b *Builder) Load() int { return len(b.pods) + len(b.nodes) + len(b.classes) + len(b.selectors) }

func (b *Builder) compilePoolCatalogs() []*PoolCatalog {
	var out []*PoolCatalog
	var laid map[layout]*PoolCatalog
	for name, p := range b.pools {
		m := b.poolCatalogs[name]
		if m == nil {
			if laid == nil {
				laid = b.laidOut()
			}
			m = b.poolCatalog(p, laid)
			b.poolCatalogs[name] = m
		}
		m.measureLimits(b.resources, b.holding[name])
		out = append(out, m)
	}
	if laid != nil {
		b.forgetFits()
	}
	slices.SortFunc(out, func(x, y *PoolCatalog) int {
		return cmp.Or(-cmp.Compare(x.Pool.Weight, y.Pool.Weight), cmp.Compare(x.Pool.Name, y.Pool.Name))
	})
	return out
}

// laidOut returns the pool catalogs by layout.
func (b *Builder) laidOut() map[layout]*PoolCatalog {
	out := make(map[layout]*PoolCatalog, len(b.poolCatalogs))
	for _, m := range b.poolCatalogs {
		out[m.laid] = m
	}
	return out
}

// forgetFits drops memos about pool catalogs that have been replaced or removed.
func (b *Builder) forgetFits() {
	for _, s := range b.shapes {
		b.forgetFitsOf(s)
		for _, v := range s.variants {
			b.forgetFitsOf(v)
		}
	}
}

func (b *Builder) forgetFitsOf(s *PodShape) {
	gone := func(m *PoolCatalog) bool { return b.poolCatalogs[m.Pool.Name] != m }
	maps.DeleteFunc(s.fits, func(m *PoolCatalog, _ *Compatible) bool { return gone(m) })
	maps.DeleteFunc(s.met, func(m *PoolCatalog, _ bitset.Set) bool { return gone(m) })
}

// measureLimits computes what the pool may still launch.
func (m *PoolCatalog) measureLimits(resources *quantity.Space, h holding) {
	m.NodesLeft, m.Limited, m.Left, m.Uncounted = -1, nil, quantity.Vector{}, nil
	for _, name := range m.Pool.Limits.Names() {
		limit := m.Pool.Limits[name]
		if name == quantity.NameNodes {
			m.NodesLeft = max(0, int(min(limit, 1<<30))-h.nodes)
			continue
		}
		left := limit - h.capacity[name]
		d, ok := resources.Lookup(name)
		if !ok {
			m.leaveUncounted(resources, name, left)
			continue
		}
		m.Limited = append(m.Limited, d)
		m.Left[d] = left
	}
}

// leaveUncounted records a limit on a resource that has no position: nothing offers it, or
// there are more resources than positions.
func (m *PoolCatalog) leaveUncounted(resources *quantity.Space, name string, left int64) {
	if left >= 0 && !resources.OffersFrom(quantity.Catalogs, name) {
		return
	}
	var rows bitset.Set
	for i, r := range m.Catalog.Offerings {
		if left < 0 || m.Catalog.Types[r.Type].Capacity[name] > 0 {
			rows.Put(i)
		}
	}
	m.Uncounted = append(m.Uncounted, Uncounted{Limit: name, Left: left, Rows: rows})
}

// hosts updates the nodes and returns the nodes that take pods, in order.
func (b *Builder) hosts() []*NodeInfo {
	if len(b.stale) > 0 {
		daemons := b.sortedDaemons()
		for h := range b.stale {
			b.refresh(h, daemons)
		}
	}
	if b.order == nil {
		b.sortHosts()
		clear(b.indexes)
	}
	for h := range b.stale {
		for _, x := range b.indexes {
			if h.Index >= 0 {
				x.refresh(h)
			}
		}
	}
	clear(b.stale)
	return b.order
}

// sortHosts sorts the nodes that take pods, and lists the unschedulable ones apart.
func (b *Builder) sortHosts() {
	b.order, b.stuck = make([]*NodeInfo, 0, len(b.nodes)), nil
	for _, h := range b.nodes {
		h.Index, h.at = -1, -1
		switch {
		case h.Leaving:
		case h.Unschedulable:
			b.stuck = append(b.stuck, h)
		default:
			b.order = append(b.order, h)
		}
	}
	slices.SortFunc(b.order, func(x, y *NodeInfo) int {
		if x.Initialized != y.Initialized {
			if x.Initialized {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Key, y.Key)
	})
	for i, h := range b.order {
		h.Index, h.at = i, i
	}
}

// refresh computes the free capacity of a node again.
func (b *Builder) refresh(h *NodeInfo, daemons []*daemon) {
	if h.labels == nil {
		h.readLabels(b.space)
		b.wear(h, 1)
	}
	h.movable, h.podsThere = nil, nil
	h.Free = b.resources.Offered(h.Allocatable)
	h.Mounted, h.DaemonPorts = nil, nil
	present := map[string]bool{}
	if h.place != nil {
		for _, p := range h.place.pods {
			h.Free = h.Free.Sub(p.class.Requests)
			h.mount(p.class.Mounts)
			if p.daemon != "" {
				present[p.daemon] = true
			}
		}
	}
	for _, d := range daemons {
		if present[d.UID] {
			continue
		}
		if _, ok := Tolerates(d.tolerations, h.Taints); ok && h.meets(d.alternatives) {
			h.Free = h.Free.Sub(d.requests)
			h.DaemonPorts = append(h.DaemonPorts, d.Ports...)
		}
	}
}

// readLabels interns the node's labels.
func (h *NodeInfo) readLabels(space *constraint.Space) {
	h.labels = make(map[*constraint.Key]int, len(h.Labels))
	for k, v := range h.Labels {
		key := space.Key(k)
		h.labels[key] = key.ID(v)
	}
}

// wear adds the node's labels to the counts in labelsInUse, or subtracts them. readLabels must have
// been called.
func (b *Builder) wear(h *NodeInfo, by int) {
	for key := range h.labels {
		if b.labelsInUse[key] += by; b.labelsInUse[key] == 0 {
			delete(b.labelsInUse, key)
		}
	}
}

// mount attaches the volumes that are not attached yet.
func (h *NodeInfo) mount(mounts []Mount) {
	for _, m := range mounts {
		if h.Mounted[m] {
			continue
		}
		if h.Mounted == nil {
			h.Mounted = map[Mount]bool{}
		}
		h.Mounted[m] = true
		h.Free[m.Dim]--
	}
}

func (b *Builder) sortedDaemons() []*daemon {
	return slices.SortedFunc(maps.Values(b.daemons), func(x, y *daemon) int { return cmp.Compare(x.UID, y.UID) })
}

// pending lists the classes that have pods to be placed, and updates their Pods.
func (b *Builder) pending() []*PodClass {
	for _, c := range b.moved {
		c.changed = true
	}
	b.moved = b.moved[:0]
	moving := map[*PodClass][]*pod{}
	for h := range b.leaving {
		if h.place == nil {
			continue
		}
		for _, p := range h.place.pods {
			if p.movable {
				moving[p.class] = append(moving[p.class], p)
			}
		}
	}
	out := make([]*PodClass, 0, len(b.queue)+len(moving))
	for c := range b.queue {
		out = append(out, c)
	}
	for c := range moving {
		if !b.queue[c] {
			out = append(out, c)
		}
		c.changed = true
		b.moved = append(b.moved, c)
	}
	for _, c := range out {
		if c.changed {
			c.setPods(moving[c])
		}
	}
	slices.SortFunc(out, compareClasses)
	return out
}

// setPods sets Pods: the waiting pods, then the moving ones, each oldest first.
func (c *PodClass) setPods(moving []*pod) {
	c.changed = false
	pods := append(slices.Clone(c.waiting), moving...)
	slices.SortFunc(pods, func(x, y *pod) int {
		if (x.place == nil) != (y.place == nil) {
			if x.place == nil {
				return -1
			}
			return 1
		}
		return byAge(x, y)
	})
	c.Pods = make([]PodRef, len(pods))
	for i, p := range pods {
		c.Pods[i] = p.PodRef
	}
}

// compareClasses puts high priority first, then large pods, because small pods fill gaps.
// Virtual pods come after all real pods.
func compareClasses(x, y *PodClass) int {
	if x.Virtual != y.Virtual {
		if y.Virtual {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(y.Priority, x.Priority); c != 0 {
		return c
	}
	if c := cmp.Compare(y.size, x.size); c != 0 {
		return c
	}
	return cmp.Compare(x.key, y.key)
}

// budgets returns the remaining quotas: what the cloud reports, minus the use of nodes that the
// cloud does not count yet. Node classes share the subscription's quotas; where two disagree,
// the smaller value counts.
func (b *Builder) budgets() map[string]int64 {
	left := map[string]int64{}
	for _, c := range b.catalogs {
		for name, n := range c.budgets {
			if had, ok := left[name]; !ok || n < had {
				left[name] = n
			}
		}
	}
	for h := range b.drawing {
		for _, d := range h.QuotaUses {
			if _, ok := left[d.Quota]; ok {
				left[d.Quota] -= d.Amount
			}
		}
	}
	return left
}
