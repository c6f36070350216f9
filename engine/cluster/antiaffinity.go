// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
)

// AntiAffinityTerm is a required anti-affinity term of some pods: a pod that Selector selects must
// not run in the same domain of Key as they do.
type AntiAffinityTerm struct {
	Key      *constraint.Key
	Selector *PodSelector

	key    string
	owners []*PodClass
}

// Owners are the classes whose pods have the term, in no order. They must not be changed.
func (t *AntiAffinityTerm) Owners() []*PodClass { return t.owners }

// EachNode is PodSelector.EachNode for the pods that have the term.
func (t *AntiAffinityTerm) EachNode(withoutVirtual bool, f func(node *NodeInfo, pods, terminating int)) {
	eachNodeOf(t.owners, withoutVirtual, f)
}

// OwnedBy reports whether the pods of a class have the term.
func (t *AntiAffinityTerm) OwnedBy(c *PodClass) bool { return slices.Contains(c.ownTerms, t) }

// RequiredAntiAffinity lists the required anti-affinity terms of the class's own pods. They
// must not be changed.
func (c *PodClass) RequiredAntiAffinity() []*AntiAffinityTerm { return c.ownTerms }

// antiAffinityTerms is the required anti-affinity terms of all pods, each shared by the classes
// whose pods have it.
type antiAffinityTerms struct {
	byKey  map[string]*AntiAffinityTerm
	sorted []*AntiAffinityTerm // nil when it must be computed again
}

// acquire returns the shared term for one owner more, which hands it back with release.
func (ts *antiAffinityTerms) acquire(key *constraint.Key, selector *PodSelector, owner *PodClass) *AntiAffinityTerm {
	name := key.Name + "\x00" + selector.key
	t := ts.byKey[name]
	if t == nil {
		t = &AntiAffinityTerm{Key: key, Selector: selector, key: name}
		ts.byKey[name], ts.sorted = t, nil
	}
	t.owners = append(t.owners, owner)
	return t
}

// release takes the term from one of its owners, and removes it with the last one.
func (ts *antiAffinityTerms) release(t *AntiAffinityTerm, owner *PodClass) {
	t.owners = removeFrom(t.owners, owner)
	if len(t.owners) == 0 {
		delete(ts.byKey, t.key)
		ts.sorted = nil
	}
}

// inOrder lists the terms by key.
func (ts *antiAffinityTerms) inOrder() []*AntiAffinityTerm {
	if ts.sorted == nil {
		ts.sorted = slices.SortedFunc(maps.Values(ts.byKey), func(x, y *AntiAffinityTerm) int { return cmp.Compare(x.key, y.key) })
	}
	return ts.sorted
}
