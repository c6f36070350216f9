// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"slices"
)

// pod is what the Builder keeps of a Pod. The class holds everything that decisions look at;
// a copy per pod would double the memory of a large cluster.
type pod struct {
	PodRef
	created       int64 // ns since 1970
	class         *PodClass
	bound         *nodePods // nil while pending
	index         int       // in bound.pods or class.pending
	labels        map[string]string
	daemonSet     string // UID
	owner         string // UID
	reschedulable bool
	terminating   bool
	placed        bool // WhatIf.Place put it on a node
}

// podStore keeps the pods. Each pod is linked with its class, and with its node when it is
// bound.
type podStore struct {
	byUID   map[string]*pod
	labels  *selectorLabels
	classes *podClasses
	nodes   *nodeStore
	claims  exclusiveClaims
	// lookedAt counts the pods that were looked at because a selector is the first to use a label.
	lookedAt int
}

func (s *podStore) set(p *Pod) {
	c := s.assignClass(p)
	c.podTotal++ // keeps the class while the previous version of the pod is removed
	s.remove(p.UID)
	c.podTotal--
	added := &pod{
		PodRef: p.PodRef, created: p.Created.UnixNano(), class: c, labels: p.Labels,
		daemonSet: p.DaemonSet, owner: p.Owner, reschedulable: p.ReschedulableNow, terminating: p.Terminating,
	}
	if p.Node != "" {
		added.bound = s.nodes.nodePodsOrNew(p.Node)
	}
	s.byUID[p.UID] = added
	s.claims.add(added, p.ExclusiveClaims)
	s.link(added)
}

func (s *podStore) remove(uid string) {
	p := s.byUID[uid]
	if p == nil {
		return
	}
	delete(s.byUID, uid)
	s.claims.remove(p)
	s.unlink(p)
	s.classes.removeIfEmpty(p.class)
	if p.bound != nil {
		s.nodes.dropIfEmpty(p.bound)
	}
}

// link adds the pod to its class and to its node.
func (s *podStore) link(p *pod) {
	p.class.podTotal++
	if p.bound == nil {
		s.classes.addPending(p)
		return
	}
	p.bound.add(p)
	p.class.addBound(p, 1)
	s.classes.selectors.updateOnNodes(p.class)
	s.nodes.markStale(p.bound)
}

// unlink undoes link.
func (s *podStore) unlink(p *pod) {
	p.class.podTotal--
	if p.bound == nil {
		s.classes.removePending(p)
		return
	}
	p.bound.remove(p)
	p.class.addBound(p, -1)
	s.classes.selectors.updateOnNodes(p.class)
	s.nodes.markStale(p.bound)
}

// assignClass returns the class of the pod, and adds it when it is new. When the pod's selectors
// are the first to use a label, pods that have the label are assigned to classes again: their
// classes do not differ in it yet.
func (s *podStore) assignClass(p *Pod) *PodClass {
	added, former := s.labels.unusedOf(p)
	if len(added)+len(former) == 0 {
		return s.classes.getOrAdd(p)
	}
	s.useAll(added, former)
	if len(former) > 0 {
		s.reassignToBePlaced(func(c *PodClass) bool { return c.unused.mayHave(former) }, func(q *pod) bool { return hasAny(q.labels, former) })
	}
	if len(added) > 0 && s.classes.someMayHave(added) {
		s.lookedAt += len(s.byUID)
		for _, q := range s.byUID {
			if q.class.unused.mayHave(added) && hasAny(q.labels, added) {
				s.reassign(q, s.toBePlaced(q))
			}
		}
	}
	c := s.classes.getOrAdd(p) // uses the labels from now on
	for _, labels := range [][]string{added, former} {
		for _, label := range labels {
			s.labels.release(label)
		}
	}
	return c
}

func (s *podStore) useAll(lists ...[]string) {
	for _, labels := range lists {
		for _, label := range labels {
			s.labels.use(label)
		}
	}
}

// selectorLabels lists the labels of pods that selectors use or used before, in no order.
func (s *podStore) selectorLabels() []string {
	found := map[string]bool{}
	for _, p := range s.byUID {
		for label := range p.labels {
			if s.labels.known(label) {
				found[label] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// toBePlaced reports whether decisions place the pod: it is pending, or its node is marked
// for deletion.
func (s *podStore) toBePlaced(p *pod) bool {
	return p.bound == nil || s.nodes.markedForDeletion[p.bound.node]
}

// dropFormerLabels assigns pods that are to be placed to other classes where theirs still
// differ in labels that no selector uses any more.
func (s *podStore) dropFormerLabels() {
	if len(s.labels.former) > 0 {
		outdated := func(c *PodClass) bool { return s.labels.hasFormer(c.labels) }
		s.reassignToBePlaced(outdated, func(*pod) bool { return true })
	}
}

// reassignToBePlaced reassigns the pods that are to be placed for which outdated holds, if it may hold
// for pods of their class.
func (s *podStore) reassignToBePlaced(mayBe func(*PodClass) bool, outdated func(*pod) bool) {
	var pods []*pod
	for c := range s.classes.pending {
		if !mayBe(c) {
			continue
		}
		for _, p := range c.pending {
			if outdated(p) {
				pods = append(pods, p)
			}
		}
	}
	for node := range s.nodes.markedForDeletion {
		if node.bound == nil {
			continue
		}
		for _, p := range node.bound.pods {
			if mayBe(p.class) && outdated(p) {
				pods = append(pods, p)
			}
		}
	}
	for _, p := range pods {
		s.reassign(p, true)
	}
}

// reassignPodsOfRemoved reassigns the pods of a removed node, which are not to be placed as long
// as no node has its name.
func (s *podStore) reassignPodsOfRemoved(node *NodeInfo) {
	if len(s.labels.former) == 0 || node.bound == nil || node.bound.node != nil {
		return
	}
	for _, p := range slices.Clone(node.bound.pods) {
		s.reassign(p, false)
	}
}

// reassign moves a pod to the class that fits the labels that selectors use by now.
func (s *podStore) reassign(p *pod, toBePlaced bool) {
	old := p.class
	c := s.classes.currentOrSplit(p, toBePlaced)
	if c == old {
		return
	}
	s.unlink(p)
	p.class = c
	s.link(p)
	s.classes.removeIfEmpty(old)
}
