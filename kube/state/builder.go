// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// builder writes values to the snapshot and remembers those last written: writers of nodes and pods
// compare with them, setPool and setDaemon skip an unchanged value, and renewed writes all of them
// to a new cluster.Builder. Nothing else reads the snapshot, since a decision may be using it.
// Every write but setCatalog and setOwed increments the revision.
type builder struct {
	revision *revision
	snapshot snapshotBuilder

	settings   cluster.Settings
	namespaces map[string]map[string]string // labels by name
	catalogs   map[string]classCatalog      // by node class
	pools      map[string]cluster.NodePool
	daemons    map[string]cluster.DaemonSet // by UID
	nodes      map[string]cluster.Node      // by key
	usage      map[string]cluster.PoolUsage // of nodes, by pool
	pods       map[string]cluster.Pod       // by UID
	virtual    map[string]cluster.Pod       // virtual pods, by UID; see Mirror.SetVirtualPods
	owed       map[string]int               // pods to come, by UID of their controller

	// What would otherwise have to be counted, or searched for, among all nodes and pods.
	starting map[string]bool // keys of nodes that are not initialized
	marked   int             // nodes that are or will be deleted
	unplaced int             // pods, without virtual ones, that need capacity and are nominated to no node
}

// classCatalog is the instance types of a node class and the quota that is left, by name.
type classCatalog struct {
	types []offering.InstanceType
	quota map[string]int64
}

func newBuilder(r *revision) *builder {
	return &builder{
		revision: r, snapshot: newSnapshotBuilder(),
		namespaces: map[string]map[string]string{}, catalogs: map[string]classCatalog{},
		pools: map[string]cluster.NodePool{}, daemons: map[string]cluster.DaemonSet{},
		nodes: map[string]cluster.Node{}, usage: map[string]cluster.PoolUsage{}, pods: map[string]cluster.Pod{}, virtual: map[string]cluster.Pod{}, owed: map[string]int{}, starting: map[string]bool{},
	}
}

func (s *builder) setSettings(settings cluster.Settings) {
	s.revision.increment()
	s.settings = settings
	s.snapshot.keep(objectKey{kind: "settings"}, func(b *cluster.Builder) { b.SetSettings(settings) })
}

func (s *builder) setNamespace(name string, labels map[string]string) {
	s.revision.increment()
	s.namespaces[name] = labels
	s.snapshot.keep(objectKey{"namespace", name}, func(b *cluster.Builder) { b.SetNamespace(name, labels) })
}

func (s *builder) removeNamespace(name string) {
	s.revision.increment()
	delete(s.namespaces, name)
	s.snapshot.keep(objectKey{"namespace", name}, func(b *cluster.Builder) { b.RemoveNamespace(name) })
}

// setCatalog does not increment the revision: new quota alone may change nothing.
func (s *builder) setCatalog(class string, c classCatalog) {
	s.catalogs[class] = c
	s.snapshot.keep(objectKey{"catalog", class}, func(b *cluster.Builder) { b.SetCatalog(class, c.types, c.quota) })
}

func (s *builder) removeCatalog(class string) {
	s.revision.increment()
	delete(s.catalogs, class)
	s.snapshot.keep(objectKey{"catalog", class}, func(b *cluster.Builder) { b.RemoveCatalog(class) })
}

// setPool reports whether the pool differs from the version written last.
func (s *builder) setPool(p cluster.NodePool) (changed bool) {
	if old, had := s.pools[p.Name]; had && reflect.DeepEqual(old, p) {
		return false
	}
	s.revision.increment()
	s.pools[p.Name] = p
	s.snapshot.keep(objectKey{"pool", p.Name}, func(b *cluster.Builder) { b.SetPool(p) })
	return true
}

func (s *builder) removePool(name string) {
	s.revision.increment()
	delete(s.pools, name)
	s.snapshot.keep(objectKey{"pool", name}, func(b *cluster.Builder) { b.RemovePool(name) })
}

// setDaemon writes a DaemonSet. Most events change nothing there, and a change causes every node
// to be looked at again.
func (s *builder) setDaemon(d cluster.DaemonSet) {
	if old, had := s.daemons[d.UID]; had && reflect.DeepEqual(old, d) {
		return
	}
	s.revision.increment()
	s.daemons[d.UID] = d
	s.snapshot.keep(objectKey{"daemon", d.UID}, func(b *cluster.Builder) { b.SetDaemon(d) })
}

func (s *builder) removeDaemon(uid string) {
	if _, had := s.daemons[uid]; had {
		s.revision.increment()
		delete(s.daemons, uid)
		s.snapshot.keep(objectKey{"daemon", uid}, func(b *cluster.Builder) { b.RemoveDaemon(uid) })
	}
}

func (s *builder) node(key string) (cluster.Node, bool) {
	n, ok := s.nodes[key]
	return n, ok
}

func (s *builder) setNode(n cluster.Node) {
	s.revision.increment()
	old, had := s.nodes[n.Key]
	if !had || old.Pool != n.Pool || !maps.Equal(old.Capacity, n.Capacity) {
		s.stopUsing(old)
		s.use(n)
	}
	s.countNode(old, -1)
	s.countNode(n, 1)
	s.nodes[n.Key] = n
	s.snapshot.write(objectKey{"node", n.Key}, func(b *cluster.Builder) { b.SetNode(n) })
}

// countNode adds a node to the counts, or subtracts it (by is 1 or -1). The zero Node counts as none.
func (s *builder) countNode(n cluster.Node, by int) {
	if n.MarkedForDeletion {
		s.marked += by
	}
	if by < 0 {
		delete(s.starting, n.Key)
	} else if !n.Initialized {
		s.starting[n.Key] = true
	}
}

// use counts a node against the limits of its pool.
func (s *builder) use(n cluster.Node) {
	if n.Pool != "" {
		s.usage[n.Pool] = s.usage[n.Pool].Plus(n.Capacity)
	}
}

// stopUsing undoes use.
func (s *builder) stopUsing(n cluster.Node) {
	if n.Pool == "" {
		return
	}
	s.usage[n.Pool] = s.usage[n.Pool].Minus(n.Capacity)
	if s.usage[n.Pool].Nodes == 0 {
		delete(s.usage, n.Pool)
	}
}

// exceededLimit is the name of a limit that the pool exceeds; "" when it keeps to all of them.
func (s *builder) exceededLimit(pool string) string {
	return s.usage[pool].Exceeded(s.pools[pool].Limits)
}

// setNominatedUntil sets until when pods are nominated to a node. It reports false for a node that
// is unknown or marked for deletion.
func (s *builder) setNominatedUntil(key string, until time.Time) bool {
	n, ok := s.nodes[key]
	if !ok || n.MarkedForDeletion {
		return false
	}
	n.NominatedUntil = until
	s.setNode(n)
	return true
}

func (s *builder) removeNode(key string) {
	if old, had := s.nodes[key]; had && key != "" {
		s.revision.increment()
		s.stopUsing(old)
		s.countNode(old, -1)
		delete(s.nodes, key)
		s.snapshot.write(objectKey{"node", key}, func(b *cluster.Builder) { b.RemoveNode(key) })
	}
}

// markedForDeletion reports whether the node is or will be deleted.
func (s *builder) markedForDeletion(key string) bool { return s.nodes[key].MarkedForDeletion }

// anyMarkedForDeletion reports whether any node is or will be deleted.
func (s *builder) anyMarkedForDeletion() bool { return s.marked > 0 }

func (s *builder) pod(uid string) (cluster.Pod, bool) {
	p, ok := s.pods[uid]
	return p, ok
}

func (s *builder) setPod(p cluster.Pod) {
	s.revision.increment()
	s.countPod(p.UID, -1)
	s.pods[p.UID] = p
	s.countPod(p.UID, 1)
	s.snapshot.setPod(p)
}

func (s *builder) removePod(uid string) {
	s.revision.increment()
	s.countPod(uid, -1)
	delete(s.pods, uid)
	s.snapshot.removePod(uid)
}

// countPod adds a pod to the counts, or subtracts it (by is 1 or -1). It ignores one that is unknown.
func (s *builder) countPod(uid string, by int) {
	if p, ok := s.pods[uid]; ok && p.Node == "" {
		s.unplaced += by
	}
}

// setVirtual replaces virtual pods: removed by UID, added as new ones.
func (s *builder) setVirtual(removed []string, added []cluster.Pod) {
	s.revision.increment()
	for _, uid := range removed {
		delete(s.virtual, uid)
		s.snapshot.removePod(uid)
	}
	for _, p := range added {
		s.virtual[p.UID] = p
		s.snapshot.setPod(p)
	}
}

// setOwed writes how many pods a controller has yet to create. It does not increment the revision:
// nothing that decisions about nodes read has changed.
func (s *builder) setOwed(owner string, pods int) {
	if s.owed[owner] == pods {
		return
	}
	s.owed[owner] = pods
	if pods == 0 {
		delete(s.owed, owner)
	}
	s.snapshot.write(objectKey{"owed", owner}, func(b *cluster.Builder) { b.SetOwed(owner, pods) })
}

// waiting counts the pods that need capacity and are not nominated to a node.
func (s *builder) waiting() int { return s.unplaced }

// renewed returns a new cluster.Builder with the values last written. former are labels that
// selectors use or used before (see cluster.Builder.SelectorLabels).
//
// Call it without the lock, which it takes for each value by itself. A value that changes meanwhile
// may be the old or the new one, so the changes that were kept since must follow.
func (s *builder) renewed(former []string, lock sync.Locker) *cluster.Builder {
	b := cluster.NewBuilder()
	b.AddFormerSelectorLabels(former...)
	lock.Lock()
	settings := s.settings
	lock.Unlock()
	b.SetSettings(settings)
	each(s.namespaces, lock, b.SetNamespace)
	each(s.catalogs, lock, func(class string, c classCatalog) { b.SetCatalog(class, c.types, c.quota) })
	each(s.pools, lock, func(_ string, p cluster.NodePool) { b.SetPool(p) })
	each(s.daemons, lock, func(_ string, d cluster.DaemonSet) { b.SetDaemon(d) })
	each(s.nodes, lock, func(_ string, n cluster.Node) { b.SetNode(n) })
	each(s.pods, lock, func(_ string, p cluster.Pod) { b.SetPod(p) })
	each(s.owed, lock, b.SetOwed)
	each(s.virtual, lock, func(_ string, p cluster.Pod) { b.SetPod(p) })
	return b
}

// each calls f, without the lock, with every entry of a map that the lock guards. It takes the lock
// between two calls, so that events wait for one call at most: a map may change while it is ranged
// over. Entries that are added meanwhile may be left out.
func each[V any](of map[string]V, lock sync.Locker, f func(key string, value V)) {
	lock.Lock()
	for key, value := range of {
		lock.Unlock() // not deferred: f may panic
		f(key, value)
		lock.Lock()
	}
	lock.Unlock()
}
