// SPDX-License-Identifier: Apache-2.0

package schedsim

import (
	"cmp"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
)

// leavingPods is the pods that leave their nodes for a move, in any simulated way: listed by
// node, and in batches.
type leavingPods struct {
	from    []int // the nodes that they leave
	pods    []leavingPod
	batches []batch
	targets targets
	pdbs    pdbCounts

	queued, delayed []*leavingPod // scratch: see queue
}

// leavingPod is a pod that needs another node.
type leavingPod struct {
	*podClass
	from    int // its node
	target  int // an index into targets; negative when the plan has no node for it
	planned int // the node that the plan has for it: its own when there is none
	pdb     int // the number of the PDB that may delay it; negative for none
	allowed int // by that PDB
}

// batch is pods of one class that leave one node.
type batch struct {
	node     int     // in the order of the move
	share    float64 // of the node that each pod requests
	from, to int     // in leavingPods.pods
}

// reset empties the lists for another move.
func (l *leavingPods) reset() {
	l.from, l.pods, l.batches = l.from[:0], l.pods[:0], l.batches[:0]
	l.targets.reset()
	l.pdbs.reset()
}

// add adds a pod of the snapshot.
func (l *leavingPods) add(class *podClass, from int, uid string, pdbs map[string]*PDB) {
	p := leavingPod{podClass: class, from: from, target: l.targets.indexOf(uid), pdb: -1}
	if pdb, guarded := pdbs[uid]; guarded {
		p.pdb, p.allowed = l.pdbs.number(pdb.Name), pdb.Allowed
	}
	l.pods = append(l.pods, p)
}

// addArrived adds a pod that an earlier move put on the node.
func (l *leavingPods) addArrived(class *podClass, from int) {
	l.pods = append(l.pods, leavingPod{podClass: class, from: from, target: -1, pdb: -1})
}

// addBatch makes the pods from the first on a batch.
func (l *leavingPods) addBatch(node int, share float64, first int) {
	l.batches = append(l.batches, batch{node, share, first, len(l.pods)})
}

// plan sets the planned node of every pod.
func (l *leavingPods) plan() {
	for i := range l.pods {
		p := &l.pods[i]
		p.planned = p.from
		if at := l.targets.nodeOf(p.target); at >= 0 {
			p.planned = at
		}
	}
}

// evictionOrder decides which of two batches leaves first; of equal ones that is the one that is
// listed first.
type evictionOrder func(x, y batch) int

// allNodesAtOnce is the order when nodes are drained at the same time: the largest pods first.
func allNodesAtOnce(x, y batch) int { return cmp.Compare(y.share, x.share) }

func nodeByNode(x, y batch) int { return cmp.Or(cmp.Compare(x.node, y.node), allNodesAtOnce(x, y)) }

func lastNodeFirst(x, y batch) int { return cmp.Or(cmp.Compare(y.node, x.node), allNodesAtOnce(x, y)) }

// queue sorts the pods by that order. Those from index firstDelayed on a PodDisruptionBudget allows to
// be evicted only after others that it selects run again: all other pods are placed before them.
func (l *leavingPods) queue(o evictionOrder) (all []*leavingPod, firstDelayed int) {
	slices.SortFunc(l.batches, func(x, y batch) int { return cmp.Or(o(x, y), cmp.Compare(x.from, y.from)) })
	l.queued, l.delayed = l.queued[:0], l.delayed[:0]
	l.pdbs.restart()
	for _, b := range l.batches {
		for i := b.from; i < b.to; i++ {
			if p := &l.pods[i]; p.pdb >= 0 && l.pdbs.evict(p.pdb) > p.allowed {
				l.delayed = append(l.delayed, p)
			} else {
				l.queued = append(l.queued, p)
			}
		}
	}
	firstDelayed = len(l.queued)
	l.queued = append(l.queued, l.delayed...)
	return l.queued, firstDelayed
}

// targets are the nodes that the plan has for some of the pods: first existing nodes, then
// launches. A negative node is not known.
type targets struct {
	nodes       []int
	byUID       map[string]int // an index into nodes
	firstLaunch int
}

func (t *targets) reset() {
	if t.byUID == nil {
		t.byUID = map[string]int{}
	}
	clear(t.byUID)
	t.nodes, t.firstLaunch = t.nodes[:0], 0
}

// add makes an existing node the target of the pods.
func (t *targets) add(pods []cluster.PodRef, at int) {
	t.addLaunch(pods)
	t.nodes[len(t.nodes)-1] = at
	t.firstLaunch = len(t.nodes)
}

// addLaunch makes the next launch the target of the pods.
func (t *targets) addLaunch(pods []cluster.PodRef) {
	for _, ref := range pods {
		t.byUID[ref.UID] = len(t.nodes)
	}
	t.nodes = append(t.nodes, -1)
}

// setLaunch sets the node that a launch becomes.
func (t *targets) setLaunch(i, at int) { t.nodes[t.firstLaunch+i] = at }

// indexOf is the index of the pod's target; negative when it has none.
func (t *targets) indexOf(uid string) int {
	if i, known := t.byUID[uid]; known {
		return i
	}
	return -1
}

// nodeOf is the node of a target.
func (t *targets) nodeOf(target int) int {
	if target < 0 {
		return -1
	}
	return t.nodes[target]
}

// pdbCounts counts the pods that were evicted, by the PodDisruptionBudget that selects them.
type pdbCounts struct {
	numbers map[string]int // by name
	evicted []int          // by number
}

func (c *pdbCounts) reset() {
	if c.numbers == nil {
		c.numbers = map[string]int{}
	}
	clear(c.numbers)
}

// number is the number of the PDB with that name.
func (c *pdbCounts) number(name string) int {
	i, known := c.numbers[name]
	if !known {
		i = len(c.numbers)
		c.numbers[name] = i
	}
	return i
}

// restart counts from zero.
func (c *pdbCounts) restart() {
	c.evicted = append(c.evicted[:0], make([]int, len(c.numbers))...)
}

// evict counts one more pod, and returns how many there are.
func (c *pdbCounts) evict(number int) int {
	c.evicted[number]++
	return c.evicted[number]
}
