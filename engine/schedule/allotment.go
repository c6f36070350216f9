// SPDX-License-Identifier: Apache-2.0

package schedule

// allotment is pods of one pod group that nodes are to be launched for in one cell; a nil
// cell leaves the domain open.
type allotment struct {
	group      *podGroup
	cell       *cell
	wanted     int // pods assigned to the allotment
	placed     int
	dropped    int         // pods that were assigned, found no capacity, and dropped a preference
	shapeGroup *shapeGroup // while launching
	order      int         // among those of the shape group
	inFilling  int         // while filling one node
	ready      bool        // the same; see shapeGroup.ready
}

func (a *allotment) left() int { return a.wanted - a.placed }

// leftForNode is how many of the pods left a node may have by the rules that count the group's own.
func (a *allotment) leftForNode() int { return min(a.left(), a.group.nodeRules.mostOnNode()) }

// allot makes an allotment of n pods.
func (g *podGroup) allot(c *cell, n int) []*allotment {
	if n == 0 {
		return nil
	}
	g.allotted += n
	return []*allotment{{group: g, cell: c, wanted: n}}
}
