// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// nodePods is a node name with the pods bound to it, whether or not the node is known.
type nodePods struct {
	nodeName string
	node     *NodeInfo
	pods     []*pod
}

func (n *nodePods) add(p *pod) {
	p.index = len(n.pods)
	n.pods = append(n.pods, p)
}

func (n *nodePods) remove(p *pod) { n.pods = removeAt(n.pods, p.index) }

// removeAt removes the pod at that index and moves the last one there.
func removeAt(pods []*pod, index int) []*pod {
	last := len(pods) - 1
	pods[index] = pods[last]
	pods[index].index = index
	pods[last] = nil
	return pods[:last]
}

// nodeStore keeps the nodes, and the indexes over them.
type nodeStore struct {
	interner  *constraint.Interner
	resources *quantity.Positions

	byKey map[string]*NodeInfo
	pods  map[string]*nodePods // by node name
	// markedForDeletion are the nodes whose reschedulable pods need replacements elsewhere.
	markedForDeletion map[*NodeInfo]bool
	stale             map[*NodeInfo]bool // nodes whose Free must be computed again
	nodeLabelCounts   labelCounts
	// takingPods are the nodes that take pods, in order; nil when they must be listed again.
	// takingNoPods are the others that are not marked for deletion.
	takingPods, takingNoPods []*NodeInfo
	indexes                  nodeIndexes // of takingPods
}

func newNodeStore(interner *constraint.Interner, resources *quantity.Positions) nodeStore {
	return nodeStore{
		interner: interner, resources: resources, byKey: map[string]*NodeInfo{}, pods: map[string]*nodePods{},
		markedForDeletion: map[*NodeInfo]bool{}, stale: map[*NodeInfo]bool{}, nodeLabelCounts: labelCounts{},
		indexes: nodeIndexes{byKeys: map[string]*NodeIndex{}},
	}
}

// unchanged reports whether the node is known and equal.
func (s *nodeStore) unchanged(n Node) bool {
	old := s.byKey[n.Key]
	return old != nil && reflect.DeepEqual(old.Node, n)
}

// add adds a node with a new key.
func (s *nodeStore) add(n Node) *NodeInfo {
	node := &NodeInfo{Node: n, Index: -1, listIndex: -1}
	s.byKey[n.Key] = node
	s.stale[node] = true
	s.takingPods = nil
	s.offer(node, 1)
	if n.MarkedForDeletion {
		s.markedForDeletion[node] = true
	}
	if n.Name != "" {
		node.bound = s.nodePodsOrNew(n.Name)
		node.bound.node = node
	}
	return node
}

// remove removes the node with that key and returns it; nil when there is none.
func (s *nodeStore) remove(key string) *NodeInfo {
	node := s.byKey[key]
	if node == nil {
		return nil
	}
	delete(s.byKey, key)
	delete(s.stale, node)
	delete(s.markedForDeletion, node)
	s.takingPods = nil
	s.offer(node, -1)
	s.nodeLabelCounts.add(node, -1)
	if node.bound != nil && node.bound.node == node {
		node.bound.node = nil
		s.dropIfEmpty(node.bound)
	}
	return node
}

// offer counts the resources that the node offers, or stops counting them (by is 1 or -1).
func (s *nodeStore) offer(node *NodeInfo, by int) {
	s.resources.AddOffers(quantity.Nodes, node.Capacity, by)
	s.resources.AddOffers(quantity.Nodes, node.Allocatable, by)
}

// nodePodsOrNew returns the pods of the node with that name, known or not; it adds the name.
func (s *nodeStore) nodePodsOrNew(nodeName string) *nodePods {
	n := s.pods[nodeName]
	if n == nil {
		n = &nodePods{nodeName: nodeName}
		s.pods[nodeName] = n
	}
	return n
}

// dropIfEmpty removes the name of an unknown node without pods.
func (s *nodeStore) dropIfEmpty(n *nodePods) {
	if n.node == nil && len(n.pods) == 0 {
		delete(s.pods, n.nodeName)
	}
}

func (s *nodeStore) markStale(n *nodePods) {
	if n.node != nil {
		s.stale[n.node] = true
	}
}

func (s *nodeStore) markAllStale() {
	for _, node := range s.byKey {
		s.stale[node] = true
	}
}

// podsToReschedule returns the reschedulable pods on nodes marked for deletion, by class.
func (s *nodeStore) podsToReschedule() map[*PodClass][]*pod {
	if len(s.markedForDeletion) == 0 {
		return nil
	}
	out := map[*PodClass][]*pod{}
	for node := range s.markedForDeletion {
		if node.bound == nil {
			continue
		}
		for _, p := range node.bound.pods {
			if p.reschedulable {
				out[p.class] = append(out[p.class], p)
			}
		}
	}
	return out
}

// updateAndList brings the nodes and the indexes up to date. It returns the nodes that take pods,
// in order, and the others that are not marked for deletion.
func (s *nodeStore) updateAndList(daemons *daemonSets) (takingPods, takingNoPods []*NodeInfo) {
	s.refreshStale(daemons)
	if s.takingPods == nil {
		s.sort()
		s.indexes.clear()
	}
	for node := range s.stale {
		if node.Index >= 0 {
			s.indexes.refresh(node)
		}
	}
	clear(s.stale)
	return s.takingPods, s.takingNoPods
}

func (s *nodeStore) refreshStale(daemons *daemonSets) {
	if len(s.stale) == 0 {
		return
	}
	sorted := daemons.sorted()
	for node := range s.stale {
		if node.labels == nil {
			node.readLabels(s.interner)
			s.nodeLabelCounts.add(node, 1)
		}
		node.refresh(s.resources, sorted)
	}
}

// sort sorts the nodes that take pods, and lists the others that are not marked for deletion.
func (s *nodeStore) sort() {
	s.takingPods, s.takingNoPods = make([]*NodeInfo, 0, len(s.byKey)), nil
	for _, node := range s.byKey {
		node.Index, node.listIndex = -1, -1
		switch {
		case node.MarkedForDeletion:
		case node.TakesNoPods:
			s.takingNoPods = append(s.takingNoPods, node)
		default:
			s.takingPods = append(s.takingPods, node)
		}
	}
	slices.SortFunc(s.takingPods, func(x, y *NodeInfo) int {
		if x.Initialized != y.Initialized {
			if x.Initialized {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Key, y.Key)
	})
	for i, node := range s.takingPods {
		node.Index, node.listIndex = i, i
	}
}

// labelCounts is how many nodes have each label.
type labelCounts map[*constraint.Key]int

// add adds the node's labels, or subtracts them (by is 1 or -1).
func (l labelCounts) add(node *NodeInfo, by int) {
	for key := range node.labels {
		if l[key] += by; l[key] == 0 {
			delete(l, key)
		}
	}
}
