// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
)

// cell is one combination of values of the labels over which a pod group is constrained, with what is
// planned there for the group.
type cell struct {
	*cellInfo
	nodes    []nodeRange // slots of the nodes that accept the group
	maxPods  int         // how many pods launches there take; negative: unknown
	room     int         // how many pods planned launches there have room for; for policy.groupByGroup
	wanted   int         // how many pods nodes are to be launched for there
	assigned int         // the same, earlier in the round; noted where maxPods is known
}

// cellInfo says which combination of values a cell is. Groups of one shape share it.
type cellInfo struct {
	cluster.Cell
	name      string // for messages, and for order
	key       string // differs for cells over different labels
	partition string // of every node in the cell
	inFilter  []bool // by spread filter of the group: whether its constraint looks at the cell
	set       constraint.Set
	price     offering.Price // of the cheapest offering there (see also pricePerPod); negative when none is available
	// open is set when a node may be in any domain that set admits; no label has a value then.
	open bool
}

// isCountedBy reports whether the domain counts look at nodes of the cell.
func (c *cell) isCountedBy(inc *domainIncrements) bool {
	if inc.filter >= 0 && !c.inFilter[inc.filter] {
		return false
	}
	return c.hasKeys(inc.like.requiredKeys)
}

// hasKeys reports whether nodes of the cell have the labels, as far as the cell tells.
func (c *cell) hasKeys(keys []*constraint.Key) bool {
	for i, had := range c.Keys {
		if c.Values[i] < 0 && slices.Contains(keys, had) {
			return false
		}
	}
	return true
}

// usableValues lists the values of the label of the group's rule for which pods can be in some cell that
// the rule counts. A spread does not wait for pods in an empty domain where required affinity or
// anti-affinity allows none. It appends to out, which is empty.
func (g *podGroup) usableValues(out []int, r *domainRule, cells []*cell, mayBeFirst bool) []int {
	for _, c := range cells {
		v := c.Values[r.keyIndex]
		if v < 0 || !c.usable() || !c.hasKeys(r.count.requiredKeys) || slices.Contains(out, v) {
			continue
		}
		if r.kind != spreadRule || r.count.count(v) > 0 || g.mayJoin(c, mayBeFirst) {
			out = append(out, v)
		}
	}
	return out
}

// mayJoin reports whether required affinity and anti-affinity over domains allow a pod of the group in
// the cell.
func (g *podGroup) mayJoin(c *cell, mayBeFirst bool) bool {
	for i := range g.domainRules {
		r := &g.domainRules[i]
		if r.kind != spreadRule && !r.soft && !r.allows(c.Values[r.keyIndex], nil, mayBeFirst) {
			return false
		}
	}
	return true
}

// usable reports whether pods of the group can be in the cell at all.
func (c *cell) usable() bool { return c.price >= 0 && c.maxPods != 0 || len(c.nodes) > 0 }

// newCell makes a cell for which nothing is planned.
func newCell(info *cellInfo) cell { return cell{cellInfo: info, maxPods: -1} }

// newCellInfo describes a cell in which no available offering is known.
func (g *podGroup) newCellInfo(values []int, at partition) cellInfo {
	c := cellInfo{Cell: cluster.Cell{Keys: g.domainKeys, Values: slices.Clone(values)}, name: g.cellName(values) + at.name, price: -1, partition: at.name, inFilter: at.inFilter}
	c.set, c.key = c.Set().And(at.set), c.name
	for _, key := range g.domainKeys {
		c.key += "\x00" + key.Name
	}
	return c
}

// is reports whether the cell has those values and is in that partition.
func (c *cellInfo) is(values []int, at partition) bool {
	return c.partition == at.name && slices.Equal(c.Values, values)
}

// cellName writes the cell's values, for order and for messages.
func (g *podGroup) cellName(values []int) string {
	name := ""
	for i, v := range values {
		if i > 0 {
			name += ", "
		}
		if v < 0 {
			name += fmt.Sprintf("no %s", g.domainKeys[i].Name)
			continue
		}
		name += g.domainKeys[i].Value(v)
	}
	return name
}
