// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// daemonSets keeps the DaemonSets, whose pods take capacity of every node that they match.
type daemonSets struct {
	interner  *constraint.Interner
	resources *quantity.Positions
	byUID     map[string]*daemon
}

// daemon is a DaemonSet, compiled.
type daemon struct {
	DaemonSet
	requests     quantity.Vector
	alternatives []constraint.Set
}

func (s *daemonSets) set(set DaemonSet) {
	s.remove(set.UID)
	d := &daemon{DaemonSet: set}
	d.updateVector(s.resources)
	s.resources.AddRequests(set.Requests, 1)
	d.alternatives, _ = alternatives(s.interner, set.Required, set.AnyOf)
	s.byUID[set.UID] = d
}

// remove removes the DaemonSet with that UID; false when there is none.
func (s *daemonSets) remove(uid string) bool {
	old, ok := s.byUID[uid]
	if !ok {
		return false
	}
	s.resources.AddRequests(old.Requests, -1)
	delete(s.byUID, uid)
	return true
}

// sorted lists the DaemonSets by UID.
func (s *daemonSets) sorted() []*daemon {
	return slices.SortedFunc(maps.Values(s.byUID), func(x, y *daemon) int { return cmp.Compare(x.UID, y.UID) })
}

// updateAllVectors computes the vectors of all DaemonSets again.
func (s *daemonSets) updateAllVectors() {
	for _, d := range s.byUID {
		d.updateVector(s.resources)
	}
}

// updateVectorsRequesting computes the vectors of the DaemonSets that request any of these
// resources again; false when there are none.
func (s *daemonSets) updateVectorsRequesting(names []string) bool {
	any := false
	for _, d := range s.byUID {
		if d.requestsAny(names) {
			d.updateVector(s.resources)
			any = true
		}
	}
	return any
}

// updateVector computes the vector of what the DaemonSet takes. It leaves out resources without a
// position (other resources took them all): no pod that requests them is placed either.
func (d *daemon) updateVector(resources *quantity.Positions) {
	known := maps.Clone(d.Requests)
	maps.DeleteFunc(known, func(name string, _ int64) bool { return resources.LacksPosition(name) })
	d.requests = resources.RequestVector(known)
}

func (d *daemon) requestsAny(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return d.Requests[name] > 0 })
}

// runsOn reports whether the DaemonSet controller puts a pod on the node.
func (d *daemon) runsOn(node *NodeInfo) bool {
	_, ok := Tolerates(d.Tolerations, node.Taints)
	return ok && node.meets(d.alternatives)
}
