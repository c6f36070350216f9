package world

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
)

// Builder keeps a World current from single changes, in any order: a pod may
// name a node that is not known yet, a pool a catalog that comes later. It folds
// pods into classes and interns labels as they arrive, so that World costs no
// rebuild. It is not safe for concurrent use: its owner serialises calls.
type Builder struct {
	space     *constraint.Space
	resources *quantity.Space

	classes  map[string]*Class
	pods     map[string]*pod            // by UID
	waiting  map[string]*pod            // those of them that are bound to no node
	bound    map[string]map[string]*pod // by node name, then UID
	nodes    map[string]*Host           // by key
	byName   map[string]string          // node name → key
	pools    map[string]Pool            // by name
	daemons  map[string]*daemon         // by UID
	catalogs map[string]catalog         // by node class
	markets  map[string]*Market         // by pool; nil entries are to be compiled
	stale    map[string]bool            // node keys whose Host must be recomputed
	dims     int                        // resources known when vectors were last made

	namespaces map[string]map[string]string // labels by name
	settings   Settings
}

type pod struct {
	Pod
	class *Class
}

type daemon struct {
	Daemon
	requests     quantity.Vector
	alternatives []constraint.Set
	tolerations  []Toleration
}

type catalog struct {
	compiled *offer.Catalog
	budgets  map[string]int64
}

// NewBuilder returns a Builder of the empty World.
func NewBuilder() *Builder {
	return &Builder{
		space: constraint.NewSpace(), resources: quantity.NewSpace(),
		classes: map[string]*Class{}, pods: map[string]*pod{}, waiting: map[string]*pod{}, bound: map[string]map[string]*pod{},
		nodes: map[string]*Host{}, byName: map[string]string{}, pools: map[string]Pool{},
		daemons: map[string]*daemon{}, catalogs: map[string]catalog{}, markets: map[string]*Market{},
		stale: map[string]bool{}, namespaces: map[string]map[string]string{},
	}
}

// SetPod adds or replaces the pod with that UID: pending when pod.Node is empty, else bound.
func (b *Builder) SetPod(p Pod) {
	b.RemovePod(p.UID)
	sig := signature(p)
	c := b.classes[sig]
	if c == nil {
		c = b.newClass(p, sig)
		b.classes[sig] = c
	}
	c.pods++
	// The class holds what decisions look at; keeping it per pod too would double
	// the memory of a large cluster.
	p.Requests, p.Required, p.AnyOf, p.Tolerations = nil, nil, nil, nil
	entry := &pod{Pod: p, class: c}
	b.pods[p.UID] = entry
	if p.Node == "" {
		b.waiting[p.UID] = entry
		return
	}
	if b.bound[p.Node] == nil {
		b.bound[p.Node] = map[string]*pod{}
	}
	b.bound[p.Node][p.UID] = entry
	b.touch(p.Node)
}

// RemovePod forgets the pod with that UID.
func (b *Builder) RemovePod(uid string) {
	p := b.pods[uid]
	if p == nil {
		return
	}
	delete(b.pods, uid)
	delete(b.waiting, uid)
	if p.class.pods--; p.class.pods == 0 {
		delete(b.classes, p.class.signature)
	}
	if p.Node == "" {
		return
	}
	delete(b.bound[p.Node], uid)
	if len(b.bound[p.Node]) == 0 {
		delete(b.bound, p.Node)
	}
	b.touch(p.Node)
}

// touch marks the host of that node name for recomputing.
func (b *Builder) touch(name string) {
	if key, ok := b.byName[name]; ok {
		b.stale[key] = true
	}
}

// SetNode adds or replaces the node with that key. Bound pods find it by Node.Name.
func (b *Builder) SetNode(n Node) {
	b.RemoveNode(n.Key)
	b.nodes[n.Key] = &Host{Node: n}
	b.stale[n.Key] = true
	if n.Name != "" {
		b.byName[n.Name] = n.Key
	}
}

// RemoveNode forgets the node with that key.
func (b *Builder) RemoveNode(key string) {
	if h := b.nodes[key]; h != nil && b.byName[h.Name] == key {
		delete(b.byName, h.Name)
	}
	delete(b.nodes, key)
	delete(b.stale, key)
}

// SetPool adds or replaces a pool.
func (b *Builder) SetPool(p Pool) {
	for _, name := range p.Limits.Names() {
		if name != quantity.NameNodes {
			b.resources.Dim(name)
		}
	}
	b.pools[p.Name] = p
	delete(b.markets, p.Name)
}

// RemovePool forgets a pool.
func (b *Builder) RemovePool(name string) {
	delete(b.pools, name)
	delete(b.markets, name)
}

// SetDaemon adds or replaces a DaemonSet by UID. One whose constraints cannot be
// read lands nowhere: the DaemonSet controller could not place it either.
func (b *Builder) SetDaemon(d Daemon) {
	b.RemoveDaemon(d.UID)
	entry := &daemon{Daemon: d, tolerations: d.Tolerations}
	entry.requests, _ = b.resources.Asked(d.Requests)
	entry.alternatives, _ = b.alternatives(d.Required, d.AnyOf)
	b.daemons[d.UID] = entry
	b.daemonsChanged()
}

// RemoveDaemon forgets the DaemonSet with that UID.
func (b *Builder) RemoveDaemon(uid string) {
	if _, ok := b.daemons[uid]; !ok {
		return
	}
	delete(b.daemons, uid)
	b.daemonsChanged()
}

func (b *Builder) daemonsChanged() {
	clear(b.markets)
	for key := range b.nodes {
		b.stale[key] = true
	}
}

// SetCatalog sets what a node class can buy and what is left of the budgets. The
// types must not change afterwards; handing in the same slice again is free.
func (b *Builder) SetCatalog(class string, types []offer.Type, budgets map[string]int64) {
	old := b.catalogs[class]
	entry := catalog{compiled: old.compiled, budgets: budgets}
	if old.compiled == nil || !sameTypes(old.compiled, types) {
		entry.compiled = offer.Compile(b.space, b.resources, types)
		for name, p := range b.pools {
			if p.Class == class {
				delete(b.markets, name)
			}
		}
	}
	b.catalogs[class] = entry
}

func sameTypes(c *offer.Catalog, types []offer.Type) bool {
	return c.Source != nil && len(types) > 0 && len(c.Source) == len(types) && &c.Source[0] == &types[0]
}

// SetNamespace adds or replaces a namespace: selectors may ask for its labels.
func (b *Builder) SetNamespace(name string, labels map[string]string) {
	b.namespaces[name] = labels
}

// RemoveNamespace forgets a namespace.
func (b *Builder) RemoveNamespace(name string) { delete(b.namespaces, name) }

// SetSettings sets the operator's wishes.
func (b *Builder) SetSettings(s Settings) { b.settings = s }

// World returns the current snapshot. It stays valid until the next change.
func (b *Builder) World() *World {
	b.measure()
	return &World{
		Space: b.space, Resources: b.resources, Markets: b.compileMarkets(),
		Hosts: b.hosts(), Classes: b.pending(), Budgets: b.budgets(), Settings: b.settings,
	}
}

// measure widens all vectors after a pod asked for a resource not seen before.
func (b *Builder) measure() {
	if b.dims == b.resources.Len() {
		return
	}
	b.dims = b.resources.Len()
	for _, c := range b.catalogs {
		c.compiled.Measure(b.resources)
	}
	b.daemonsChanged()
}

func (b *Builder) compileMarkets() []*Market {
	held := b.held()
	var out []*Market
	for name, p := range b.pools {
		m := b.markets[name]
		if m == nil {
			m = b.market(p)
			b.markets[name] = m
			b.forgetFits()
		}
		m.measureLimits(b.resources, held[name])
		out = append(out, m)
	}
	slices.SortFunc(out, func(x, y *Market) int {
		return cmp.Or(-cmp.Compare(x.Pool.Weight, y.Pool.Weight), cmp.Compare(x.Pool.Name, y.Pool.Name))
	})
	return out
}

// forgetFits drops memos of markets that are no more.
func (b *Builder) forgetFits() {
	for _, c := range b.classes {
		for m := range c.fits {
			if b.markets[m.Pool.Name] != m {
				delete(c.fits, m)
			}
		}
	}
}

// holding is what a pool's nodes and claims count against its limits.
type holding struct {
	nodes    int
	capacity quantity.Amounts
}

func (b *Builder) held() map[string]holding {
	out := map[string]holding{}
	for _, h := range b.nodes {
		if h.Pool == "" {
			continue
		}
		sum := out[h.Pool]
		sum.nodes++
		if b.pools[h.Pool].Limits != nil {
			sum.capacity = sum.capacity.Add(h.Capacity)
		}
		out[h.Pool] = sum
	}
	return out
}

// measureLimits computes what the pool may still buy.
func (m *Market) measureLimits(resources *quantity.Space, h holding) {
	m.NodesLeft, m.Limited, m.Left = -1, nil, quantity.Vector{}
	for _, name := range m.Pool.Limits.Names() {
		limit := m.Pool.Limits[name]
		if name == quantity.NameNodes {
			m.NodesLeft = max(0, int(min(limit, 1<<30))-h.nodes)
			continue
		}
		d, ok := resources.Lookup(name)
		if !ok {
			continue
		}
		m.Limited = append(m.Limited, d)
		m.Left[d] = limit - h.capacity[name]
	}
}

// hosts brings the hosts up to date and returns those that take pods, in order.
func (b *Builder) hosts() []*Host {
	daemons := b.sortedDaemons()
	for key := range b.stale {
		b.refresh(b.nodes[key], daemons)
	}
	clear(b.stale)
	out := make([]*Host, 0, len(b.nodes))
	for _, h := range b.nodes {
		if !h.Leaving && !h.Stuck {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(x, y *Host) int {
		if x.Initialized != y.Initialized {
			if x.Initialized {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Key, y.Key)
	})
	return out
}

// refresh recomputes what is free on a host.
func (b *Builder) refresh(h *Host, daemons []*daemon) {
	if h.labels == nil {
		h.labels = make(map[*constraint.Key]int, len(h.Labels))
		for k, v := range h.Labels {
			key := b.space.Key(k)
			h.labels[key] = key.ID(v)
		}
	}
	h.Free = b.resources.Offered(h.Allocatable)
	present := map[string]bool{}
	if h.Name != "" {
		for _, p := range b.bound[h.Name] {
			h.Free = h.Free.Sub(p.class.Requests)
			present[p.Daemon] = true
		}
	}
	for _, d := range daemons {
		if present[d.UID] {
			continue
		}
		if _, ok := Tolerates(d.tolerations, h.Taints); ok && h.meets(d.alternatives) {
			h.Free = h.Free.Sub(d.requests)
		}
	}
}

func (b *Builder) sortedDaemons() []*daemon {
	return slices.SortedFunc(maps.Values(b.daemons), func(x, y *daemon) int { return cmp.Compare(x.UID, y.UID) })
}

// pending lists the classes that have pods to place, with those pods in order.
func (b *Builder) pending() []*Class {
	waiting := map[*Class][]*pod{}
	for _, p := range b.waiting {
		waiting[p.class] = append(waiting[p.class], p)
	}
	for _, h := range b.nodes {
		if !h.Leaving || h.Name == "" {
			continue
		}
		for _, p := range b.bound[h.Name] {
			if p.Movable {
				waiting[p.class] = append(waiting[p.class], p)
			}
		}
	}
	out := make([]*Class, 0, len(waiting))
	for c, pods := range waiting {
		c.setPods(pods)
		out = append(out, c)
	}
	slices.SortFunc(out, compareClasses)
	return out
}

func (c *Class) setPods(pods []*pod) {
	slices.SortFunc(pods, func(x, y *pod) int {
		if (x.Node == "") != (y.Node == "") {
			if x.Node == "" {
				return -1
			}
			return 1
		}
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	c.Pods = make([]Ref, len(pods))
	for i, p := range pods {
		c.Pods[i] = p.Ref
	}
}

// compareClasses puts urgent pods first, then large ones: small pods fill gaps.
// A GiB of memory weighs a quarter of a core, the usual shape of a machine.
func compareClasses(x, y *Class) int {
	return cmp.Or(-cmp.Compare(x.Priority, y.Priority), -cmp.Compare(x.size(), y.size()), cmp.Compare(x.signature, y.signature))
}

// size ranks requests by the largest of their shares.
func (c *Class) size() int64 {
	size := max(c.Requests[quantity.CPU], c.Requests[quantity.Memory]/(4<<30/1000))
	for d := int(quantity.Pods) + 1; d < quantity.Dims; d++ {
		if c.Requests[d] > 0 {
			size += 1 << 40 // pods that need a rare resource go before all others
		}
	}
	return size
}

// budgets takes what is on its way off what the cloud said is left. Classes share
// the subscription's budgets; where two disagree the smaller counts.
func (b *Builder) budgets() map[string]int64 {
	left := map[string]int64{}
	for _, c := range b.catalogs {
		for name, n := range c.budgets {
			if had, ok := left[name]; !ok || n < had {
				left[name] = n
			}
		}
	}
	for _, h := range b.nodes {
		for _, d := range h.Draws {
			if _, ok := left[d.Budget]; ok {
				left[d.Budget] -= d.Amount
			}
		}
	}
	return left
}
