// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// owed is how many pods controllers have yet to create, by UID of the controller. It has none with
// zero.
type owed map[string]int

func (o *owed) set(owner string, pods int) {
	if pods <= 0 {
		delete(*o, owner)
		return
	}
	if *o == nil {
		*o = owed{}
	}
	(*o)[owner] = pods
}

// count sets how many pods like theirs the classes are owed. What a controller owes counts once, for
// the first class that has pending pods of it and can be planned for. All classes together are owed no more
// than maxOwed.
func (o owed) count(classes []*PodClass) {
	counted, left := map[string]bool{}, maxOwed
	for _, c := range classes {
		if c.Owed = 0; len(o) == 0 || c.Refused != "" {
			continue
		}
		for _, owner := range c.owners {
			if n := o[owner]; n > 0 && !counted[owner] {
				counted[owner] = true
				n = min(n, left)
				c.Owed, left = c.Owed+n, left-n
			}
		}
	}
}

// maxOwed is how many pods are supposed to come at most, so that a decision takes no longer because a
// controller asks for a million.
const maxOwed = 1 << 15

// setOwners lists the owners of the class's pending pods.
func (c *PodClass) setOwners() {
	c.owners = nil
	listed := map[string]bool{}
	last := ""
	for _, p := range c.pending {
		if p.owner != last && !listed[p.owner] {
			listed[p.owner] = true
			c.owners = append(c.owners, p.owner)
		}
		last = p.owner
	}
}

// WithOwed returns a snapshot whose classes are those of which pods are owed, and whose pods to place
// include these. The classes are shared, so s must not be used before restore is called. It returns nil
// where nothing is owed.
func (s *Snapshot) WithOwed() (with *Snapshot, restore func()) {
	var classes []*PodClass
	for _, c := range s.Classes {
		if c.Owed > 0 {
			classes = append(classes, c)
		}
	}
	if len(classes) == 0 {
		return nil, nil
	}
	out, before := *s, make([][]PodRef, len(classes))
	out.Classes = classes
	for i, c := range classes {
		before[i] = c.PodsToPlace
		c.PodsToPlace = append(slices.Clip(c.PodsToPlace), make([]PodRef, c.Owed)...)
	}
	return &out, func() {
		for i, c := range classes {
			c.PodsToPlace = before[i]
		}
	}
}
