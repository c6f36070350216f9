// SPDX-License-Identifier: Apache-2.0

package state

import (
	"reflect"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// builder is a cluster.Builder that remembers the values last written to it: writers of nodes and
// pods compare with them, setPool and setDaemon skip an unchanged value, and renew writes all of them
// again. Every write but setCatalog increments the revision.
type builder struct {
	revision *revision
	inner    *cluster.Builder
	size     builderSize

	settings   cluster.Settings
	namespaces map[string]map[string]string // labels by name
	catalogs   map[string]classCatalog      // by node class
	pools      map[string]cluster.NodePool
	daemons    map[string]cluster.DaemonSet // by UID
	nodes      map[string]cluster.Node      // by key
	pods       map[string]cluster.Pod       // by UID
	virtual    map[string]cluster.Pod       // virtual pods, by UID; see Mirror.SetVirtualPods
}

// classCatalog is the instance types of a node class and the quota that is left, by name.
type classCatalog struct {
	types []offering.InstanceType
	quota map[string]int64
}

func newBuilder(r *revision) *builder {
	return &builder{
		revision: r, inner: cluster.NewBuilder(),
		namespaces: map[string]map[string]string{}, catalogs: map[string]classCatalog{},
		pools: map[string]cluster.NodePool{}, daemons: map[string]cluster.DaemonSet{},
		nodes: map[string]cluster.Node{}, pods: map[string]cluster.Pod{}, virtual: map[string]cluster.Pod{},
	}
}

func (s *builder) setSettings(settings cluster.Settings) {
	s.revision.increment()
	s.settings = settings
	s.inner.SetSettings(settings)
}

func (s *builder) setNamespace(name string, labels map[string]string) {
	s.revision.increment()
	s.namespaces[name] = labels
	s.inner.SetNamespace(name, labels)
}

func (s *builder) removeNamespace(name string) {
	s.revision.increment()
	delete(s.namespaces, name)
	s.inner.RemoveNamespace(name)
}

// setCatalog does not increment the revision: new quota alone may change nothing.
func (s *builder) setCatalog(class string, c classCatalog) {
	s.catalogs[class] = c
	s.inner.SetCatalog(class, c.types, c.quota)
}

func (s *builder) removeCatalog(class string) {
	s.revision.increment()
	delete(s.catalogs, class)
	s.inner.RemoveCatalog(class)
}

// setPool reports whether the pool differs from the version written last.
func (s *builder) setPool(p cluster.NodePool) (changed bool) {
	if old, had := s.pools[p.Name]; had && reflect.DeepEqual(old, p) {
		return false
	}
	s.revision.increment()
	s.pools[p.Name] = p
	s.inner.SetPool(p)
	return true
}

func (s *builder) removePool(name string) {
	s.revision.increment()
	delete(s.pools, name)
	s.inner.RemovePool(name)
}

// setDaemon writes a DaemonSet. Most events change nothing there, and a change causes every node
// to be looked at again.
func (s *builder) setDaemon(d cluster.DaemonSet) {
	if old, had := s.daemons[d.UID]; had && reflect.DeepEqual(old, d) {
		return
	}
	s.revision.increment()
	s.daemons[d.UID] = d
	s.inner.SetDaemon(d)
}

func (s *builder) removeDaemon(uid string) {
	if _, had := s.daemons[uid]; had {
		s.revision.increment()
		delete(s.daemons, uid)
		s.inner.RemoveDaemon(uid)
	}
}

func (s *builder) node(key string) (cluster.Node, bool) {
	n, ok := s.nodes[key]
	return n, ok
}

func (s *builder) setNode(n cluster.Node) {
	s.revision.increment()
	s.nodes[n.Key] = n
	s.inner.SetNode(n)
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
	if _, had := s.nodes[key]; had && key != "" {
		s.revision.increment()
		delete(s.nodes, key)
		s.inner.RemoveNode(key)
	}
}

// markedForDeletion reports whether the node is or will be deleted.
func (s *builder) markedForDeletion(key string) bool { return s.nodes[key].MarkedForDeletion }

// anyMarkedForDeletion reports whether any node is or will be deleted.
func (s *builder) anyMarkedForDeletion() bool {
	for _, n := range s.nodes {
		if n.MarkedForDeletion {
			return true
		}
	}
	return false
}

func (s *builder) pod(uid string) (cluster.Pod, bool) {
	p, ok := s.pods[uid]
	return p, ok
}

func (s *builder) setPod(p cluster.Pod) {
	s.revision.increment()
	s.pods[p.UID] = p
	s.inner.SetPod(p)
}

func (s *builder) removePod(uid string) {
	s.revision.increment()
	delete(s.pods, uid)
	s.inner.RemovePod(uid)
}

// setVirtual replaces virtual pods: removed by UID, added as new ones.
func (s *builder) setVirtual(removed []string, added []cluster.Pod) {
	s.revision.increment()
	for _, uid := range removed {
		delete(s.virtual, uid)
		s.inner.RemovePod(uid)
	}
	for _, p := range added {
		s.virtual[p.UID] = p
		s.inner.SetPod(p)
	}
}

// waiting counts the pods that need capacity and are not nominated to a node.
func (s *builder) waiting() int {
	n := 0
	for _, p := range s.pods {
		if p.Node == "" {
			n++
		}
	}
	return n
}

// A cluster.Builder interns labels and values and never frees the numbers. They are of no use
// once the objects are deleted.

// spareEntries is how many unused numbers or shared values never cause a renewal, however few are
// in use.
const spareEntries = 1024

// builderSize is how many strings were interned when the builder was made, and the most objects
// that it has had since.
type builderSize struct {
	interned, mostObjects int
}

// tidy makes a new builder once most of the interned strings may be unused, or most of the
// objects are deleted. Between two renewals at least as many objects are added or deleted as
// the Snapshot has, so the cost of renewals is always a small part of the cost of the changes.
// The new Snapshot equals the old one.
func (s *builder) tidy() {
	interned, objects := s.inner.InternedCount(), s.inner.ObjectCount()
	s.size.mostObjects = max(s.size.mostObjects, objects)
	switch {
	case s.size.interned == 0: // everything listed at the start is in use
		s.size.interned = interned
	case interned > 2*s.size.interned+spareEntries, s.size.mostObjects > 4*(objects+spareEntries):
		s.renew()
		s.size = builderSize{interned: max(1, s.inner.InternedCount()), mostObjects: objects}
	}
}

// renew makes a new builder and writes the current values to it.
func (s *builder) renew() {
	b := cluster.NewBuilder()
	b.AddFormerSelectorLabels(s.mentioned()...)
	b.SetSettings(s.settings)
	for name, labels := range s.namespaces {
		b.SetNamespace(name, labels)
	}
	for class, c := range s.catalogs {
		b.SetCatalog(class, c.types, c.quota)
	}
	for _, p := range s.pools {
		b.SetPool(p)
	}
	for _, d := range s.daemons {
		b.SetDaemon(d)
	}
	for _, n := range s.nodes {
		b.SetNode(n)
	}
	for _, pods := range []map[string]cluster.Pod{s.pods, s.virtual} {
		for _, p := range pods {
			b.SetPod(p)
		}
	}
	s.inner = b
}

// mentioned lists the labels that selectors ask for, or once asked for, and that some pod has.
func (s *builder) mentioned() []string {
	return slices.DeleteFunc(s.inner.SelectorLabels(), func(label string) bool { return !s.anyPodHas(label) })
}

func (s *builder) anyPodHas(label string) bool {
	for _, p := range s.pods {
		if _, ok := p.Labels[label]; ok {
			return true
		}
	}
	return false
}
