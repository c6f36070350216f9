// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Builder keeps a Snapshot current from single changes in any order: a pod may name a node,
// and a pool a catalog, that is not known yet. Each of its parts keeps one kind of object; the
// Builder tells a part what the change of another one means for it. It is not safe for
// concurrent use: its owner serialises calls.
type Builder struct {
	interner  *constraint.Interner
	resources *quantity.Positions
	settings  Settings

	labels  selectorLabels
	classes podClasses
	pods    podStore
	nodes   nodeStore
	pools   nodePools
	daemons daemonSets
	quotas  quotas
	owed    owed
}

// NewBuilder returns a Builder of the empty Snapshot.
func NewBuilder() *Builder {
	b := &Builder{interner: constraint.NewInterner(), resources: quantity.NewPositions(), labels: newSelectorLabels(), quotas: newQuotas()}
	b.nodes = newNodeStore(b.interner, b.resources)
	b.classes = newPodClasses(&b.labels, newPodShapes(b.interner, b.resources, &b.nodes.indexes))
	b.pods = podStore{byUID: map[string]*pod{}, labels: &b.labels, classes: &b.classes, nodes: &b.nodes, claims: newExclusiveClaims()}
	b.pools = newNodePools(b.interner, b.resources)
	b.daemons = daemonSets{interner: b.interner, resources: b.resources, byUID: map[string]*daemon{}}
	return b
}

// SetPod adds or replaces the pod with that UID: pending when pod.Node is empty, else bound.
func (b *Builder) SetPod(p Pod) { b.pods.set(&p) }

// RemovePod removes the pod with that UID.
func (b *Builder) RemovePod(uid string) { b.pods.remove(uid) }

// SetOwed says how many more pods the controller with that UID has yet to create: those that exist
// are pods of the Snapshot already. Zero is what counts for controllers that were not set.
func (b *Builder) SetOwed(owner string, pods int) { b.owed.set(owner, pods) }

// SetNode adds or replaces the node with that key. Bound pods refer to it by Node.Name. An
// unchanged node costs nothing, because kubelets report again and again.
func (b *Builder) SetNode(n Node) {
	if b.nodes.unchanged(n) {
		return
	}
	b.RemoveNode(n.Key)
	node := b.nodes.add(n)
	b.pools.use(node, 1)
	b.quotas.addNode(node)
}

// RemoveNode removes the node with that key.
func (b *Builder) RemoveNode(key string) {
	node := b.nodes.remove(key)
	if node == nil {
		return
	}
	b.pools.use(node, -1)
	b.quotas.removeNode(node)
	if node.MarkedForDeletion {
		b.pods.reassignPodsOfRemoved(node)
	}
}

// SetPool adds or replaces a pool.
func (b *Builder) SetPool(p NodePool) { b.pools.set(p) }

// RemovePool removes a pool.
func (b *Builder) RemovePool(name string) { b.pools.remove(name) }

// SetDaemon adds or replaces a DaemonSet by UID. A DaemonSet with invalid constraints runs
// on no node: the DaemonSet controller could not place its pods either.
func (b *Builder) SetDaemon(d DaemonSet) {
	b.daemons.set(d)
	b.daemonsChanged()
}

// RemoveDaemon removes the DaemonSet with that UID.
func (b *Builder) RemoveDaemon(uid string) {
	if b.daemons.remove(uid) {
		b.daemonsChanged()
	}
}

// daemonsChanged has the free capacity of all nodes and offerings computed again.
func (b *Builder) daemonsChanged() {
	b.pools.recompileAll()
	b.nodes.markAllStale()
}

// SetCatalog sets the instance types of a node class and the remaining quotas. The types must
// not change afterwards; passing the same slice again is free.
func (b *Builder) SetCatalog(nodeClass string, types []offering.InstanceType, remaining map[string]int64) {
	b.pools.setTypes(nodeClass, types)
	b.quotas.set(nodeClass, remaining)
}

// RemoveCatalog removes the instance types of a node class: its pools have no offerings.
func (b *Builder) RemoveCatalog(nodeClass string) {
	b.pools.removeTypes(nodeClass)
	b.quotas.remove(nodeClass)
}

// SetNamespace adds or replaces a namespace: selectors may select by its labels.
func (b *Builder) SetNamespace(name string, labels map[string]string) {
	b.classes.selectors.setNamespace(name, labels)
}

// RemoveNamespace removes a namespace.
func (b *Builder) RemoveNamespace(name string) { b.classes.selectors.removeNamespace(name) }

// SetSettings sets the operator's settings.
func (b *Builder) SetSettings(s Settings) { b.settings = s }

// Snapshot returns the current snapshot. It is valid until the next change.
func (b *Builder) Snapshot() *Snapshot {
	b.pods.dropFormerLabels()
	b.classes.selectors.update()
	b.nodes.indexes.dropIdle()
	b.updateVectors()
	catalogs, recompiled := b.pools.compile(&b.daemons)
	if recompiled {
		b.classes.shapes.dropReplaced(&b.pools)
	}
	nodes, takingNoPods := b.nodes.updateAndList(&b.daemons)
	classes := b.classes.updateToBePlaced(&b.nodes)
	b.owed.count(classes)
	return &Snapshot{
		Interner: b.interner, Resources: b.resources, Settings: b.settings, PoolCatalogs: catalogs,
		Nodes: nodes, NodesTakingNoPods: takingNoPods,
		Classes:           classes,
		AntiAffinityTerms: b.classes.antiAffinity.inOrder(),
		QuotaLeft:         b.quotas.left(),
		podStore:          &b.pods, podClasses: &b.classes, nodeStore: &b.nodes,
	}
}

// updateVectors updates all vectors to the positions of resources. Most changes concern one
// resource that keeps its position, such as the devices of a plugin that is added and removed:
// then only the vectors of pods and DaemonSets that request it change.
func (b *Builder) updateVectors() {
	changed, moved := b.resources.AssignPositions()
	switch {
	case moved:
		b.classes.shapes.updateAllVectors()
		b.pools.updateAllVectors()
		b.daemons.updateAllVectors()
		b.nodes.indexes.clear()
		b.daemonsChanged()
	case len(changed) > 0:
		b.classes.eachNodeRunning(b.classes.shapes.updateVectorsRequesting(changed), b.nodes.markStale)
		if b.daemons.updateVectorsRequesting(changed) {
			b.daemonsChanged()
		}
	}
}

// InternedCount is how many labels and values the Builder keeps an ID for, including unused ones:
// IDs are not reused. When most of them are unused, a new Builder that gets the same objects
// needs less memory, and its Snapshot is the same.
func (b *Builder) InternedCount() int { return b.interner.Len() + b.classes.selectors.interned() }

// ObjectCount is the number of pods, nodes, classes and selectors in the Snapshot.
func (b *Builder) ObjectCount() int { return len(b.pods.byUID) + len(b.nodes.byKey) + b.classes.load() }

// SelectorLabels lists, in no order, the labels that selectors use or used before and that some pod
// has.
func (b *Builder) SelectorLabels() []string { return b.pods.selectorLabels() }

// AddFormerSelectorLabels makes the labels count as used before: the classes of pods that are
// not to be placed may differ in them. It is for a new Builder that replaces another one,
// before it gets any pods.
func (b *Builder) AddFormerSelectorLabels(labels ...string) { b.labels.addFormer(labels) }
