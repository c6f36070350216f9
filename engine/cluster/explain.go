// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// PoolRequirements is the Detail of a cut that does not depend on the pods.
const PoolRequirements = "the pool's own requirements"

// maxListed bounds the lists in one fact, so that people can read the explanation.
const maxListed = 12

// Funnel explains step by step, one filter after the other, how the catalog's offerings
// narrow to those that Compatible finds for the shape. It is computed only for pods without
// an offering, so nothing of it is kept.
func (c *PoolCatalog) Funnel(shape *PodShape, snapshot *Snapshot) []reason.Cut {
	e := explanation{catalog: c, shape: shape, snapshot: snapshot, left: bitset.Upto(len(c.Catalog.Offerings))}
	e.cut(reason.Requirements, c.Offerings, e.explainPool)
	e.cut(reason.Requirements, c.poolOfferingsMeetingAny(shape.own), e.explainPod)
	e.cut(reason.Volumes, c.poolOfferingsMeetingAny(shape.Alternatives), e.explainVolumes)
	if taint, ok := tolerates(shape.Tolerations, c.Pool.Taints, shape.AvoidSoft); !ok {
		e.cut(reason.Taints, nil, func(bitset.Set) (string, map[string]any) { return explainTaint(taint) })
	}
	requests := shape.requestsAloneVector()
	e.cut(reason.Resources, c.WithCapacity(&requests), e.explainResources)
	if taken := c.offeringsWithTakenPorts(shape); !taken.Empty() {
		e.cut(reason.Ports, e.left.Minus(taken), e.explainPorts)
	}
	return e.cuts
}

// requestsAloneVector is what one pod of the shape takes on an otherwise empty node.
func (s *PodShape) requestsAloneVector() quantity.Vector {
	requests := s.Requests
	for _, mount := range s.Mounts {
		requests[mount.Dim]++
	}
	return requests
}

// explanation is a funnel under construction.
type explanation struct {
	catalog  *PoolCatalog
	shape    *PodShape
	snapshot *Snapshot
	left     bitset.Set
	cuts     []reason.Cut
}

// cut keeps those of the offerings left that are in pass. It calls why, with the offerings
// left before, only when it removes any.
func (e *explanation) cut(by reason.Reason, pass bitset.Set, why func(before bitset.Set) (string, map[string]any)) {
	before := e.left
	e.left = before.And(pass)
	removed := before.Len() - e.left.Len()
	if removed == 0 {
		return
	}
	detail, facts := why(before)
	e.cuts = append(e.cuts, reason.Cut{By: by, Removed: removed, Detail: detail, Facts: reason.FactsOf(facts)})
}

// explainPool says how many offerings each of the pool's requirements would remove by itself.
func (e *explanation) explainPool(before bitset.Set) (string, map[string]any) {
	alone := map[string]int64{}
	for _, q := range e.catalog.NodeRequirements {
		if n := before.Len() - e.catalog.Catalog.Matching(q).Len(); e.catalog.Catalog.HasLabel(q.Key) && n > 0 {
			alone[q.String()] = int64(n)
		}
	}
	return PoolRequirements, map[string]any{"by": "pool", "requirements": largestCounts(alone)}
}

// explainPod names the requirement of the pods that removes the most offerings by itself.
// Ties go to a requirement on an unknown label.
func (e *explanation) explainPod(before bitset.Set) (string, map[string]any) {
	if q, bad := contradiction(e.shape.own); bad {
		return "the pod's own requirements on " + q.Key.Name + " contradict each other", map[string]any{"by": "pod", "key": q.Key.Name}
	}
	var tightest constraint.Requirement
	most, alone := 0, map[string]int64{}
	for _, alt := range e.shape.own {
		for _, q := range alt {
			n := e.removedBy(q, before)
			if n == 0 || !q.Possible() {
				continue
			}
			alone[q.String()] = int64(n)
			if n > most || n == most && !e.snapshot.knowsLabel(q.Key) && e.snapshot.knowsLabel(tightest.Key) {
				tightest, most = q, n
			}
		}
	}
	if most == 0 {
		return "no instance type meets all of the pod's requirements together", map[string]any{"by": "pod"}
	}
	facts := map[string]any{"by": "pod", "requirement": tightest.String(), "key": tightest.Key.Name, "known": e.valuesInPool(tightest.Key), "requirements": largestCounts(alone)}
	if values, ok := tightest.Values(); ok {
		facts["values"] = values[:min(len(values), maxListed)]
	}
	if e.snapshot.knowsLabel(tightest.Key) {
		return tightest.String(), facts
	}
	nearest := e.snapshot.nearestLabel(tightest.Key)
	facts["unknown"], facts["nearest"] = tightest.Key.Name, nearest
	if nearest == "" {
		return tightest.String() + ", a label that no offering, NodePool or node has", facts
	}
	return tightest.String() + ", a label that no offering, NodePool or node has; the nearest is " + nearest, facts
}

// contradiction returns the first requirement that no label value can meet, when every
// alternative has one.
func contradiction(alternatives []constraint.Set) (first constraint.Requirement, all bool) {
	for i := len(alternatives) - 1; i >= 0; i-- {
		q, bad := alternatives[i].Impossible()
		if !bad {
			return q, false
		}
		first = q
	}
	return first, len(alternatives) > 0
}

// removedBy is how many of the offerings the requirement would remove by itself.
func (e *explanation) removedBy(q constraint.Requirement, offerings bitset.Set) int {
	set := constraint.Set{q}
	return offerings.Len() - e.catalog.meeting(e.catalog.NodeRequirements.And(set), set).And(offerings).Len()
}

// valuesInPool lists the values of a label that nodes of the pool can have.
func (e *explanation) valuesInPool(k *constraint.Key) []string {
	q, own := e.catalog.NodeRequirements.Get(k)
	if !e.catalog.Catalog.HasLabel(k) {
		if values, finite := q.Values(); own && finite {
			return values[:min(len(values), maxListed)]
		}
		return nil
	}
	var out []string
	for _, id := range e.catalog.Catalog.IDs(k) {
		if !own || q.Admits(id) {
			out = append(out, k.Value(id))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxListed)]
}

// explainVolumes names the volume that can be mounted with the fewest offerings.
func (e *explanation) explainVolumes(before bitset.Set) (string, map[string]any) {
	var tightest *Volume
	least := 0
	for i := range e.shape.volumes {
		v := &e.shape.volumes[i]
		if len(v.AnyOf) == 0 {
			continue
		}
		if n := e.mountable(v).And(before).Len(); tightest == nil || n < least {
			tightest, least = v, n
		}
	}
	if tightest == nil {
		return "a volume of the pod cannot be mounted there", map[string]any{"volumes": len(e.shape.volumes)}
	}
	wanted := formatTerms(tightest.AnyOf)
	facts := map[string]any{"driver": tightest.Driver, "wanted": wanted}
	name := "a volume of the pod"
	if tightest.Shared {
		// Only shared volumes have IDs that distinguish pod shapes.
		facts["volume"], name = tightest.ID, "volume "+tightest.ID
	}
	return name + " can be mounted only where " + strings.Join(wanted, " or "), facts
}

// mountable returns the offerings on whose nodes the volume can be mounted.
func (e *explanation) mountable(v *Volume) bitset.Set {
	var sets []constraint.Set
	for _, term := range v.AnyOf {
		if set, err := e.snapshot.Interner.Set(term); err == nil { // an invalid term has made the shape Refused
			sets = append(sets, set)
		}
	}
	return e.catalog.poolOfferingsMeetingAny(sets)
}

func formatTerms(terms []Term) []string {
	var out []string
	for _, term := range terms[:min(len(terms), maxListed)] {
		var rules []string
		for _, r := range term {
			rules = append(rules, r.String())
		}
		slices.Sort(rules) // pods with the same rules in another order have one shape
		out = append(out, strings.Join(rules, ", "))
	}
	return out
}

func explainTaint(t Taint) (string, map[string]any) {
	return "pod does not tolerate taint " + t.String(), map[string]any{"taint": t.String(), "key": t.Key, "value": t.Value, "effect": string(t.Effect)}
}

// explainPorts lists the ports that DaemonSets take.
func (e *explanation) explainPorts(before bitset.Set) (string, map[string]any) {
	ports := e.catalog.PortsTaken(e.shape, before)
	return "a DaemonSet takes host port " + strings.Join(ports, ", "), map[string]any{"ports": ports}
}

// explainResources names the resource that is shortest, and the largest amount there is of it.
func (e *explanation) explainResources(before bitset.Set) (string, map[string]any) {
	requested := e.shape.requestsAlone()
	alone, requests := map[string]int64{}, map[string]int64{}
	var tightest shortage
	for _, name := range requested.RequestedNames() {
		s := e.shortage(name, min(quantity.Most, requested[name]), before)
		requests[name] = s.requested
		if s.removed > 0 {
			alone[name] = int64(s.removed)
		}
		if tightest.name == "" || s.exceeds(tightest) {
			tightest = s
		}
	}
	facts := map[string]any{
		"resource": tightest.name, "asked": tightest.requested, "largest": tightest.largest, "largestType": tightest.largestType,
		"resources": alone, "requests": requests,
	}
	switch {
	case tightest.noPosition:
		return e.explainNoPosition(facts), facts
	case !e.left.Empty():
		return "requests " + formatAllRequests(e.shape.requestsByName), facts
	case tightest.requested <= tightest.largest:
		return "no single type holds all of its requests together", facts
	}
	return tightest.String(), facts
}

// explainNoPosition names the resources that nothing offers. When everything that the pod requests
// is offered somewhere, it names the resources for which there is no position.
func (e *explanation) explainNoPosition(facts map[string]any) string {
	requested := e.shape.requestsAlone()
	var unoffered, short []string
	for _, name := range requested.RequestedNames() {
		switch d, _ := e.snapshot.Resources.RequestPosition(name); {
		case d != quantity.NoPosition:
		case e.snapshot.Resources.LacksPosition(name):
			short = append(short, name)
		default:
			unoffered = append(unoffered, name)
		}
	}
	if len(unoffered) > 0 {
		facts["unoffered"] = unoffered[:min(len(unoffered), maxListed)]
		return "requests " + formatRequests(requested, unoffered) + ", which no instance type and no node offers"
	}
	facts["unplanned"], facts["most"] = short[:min(len(short), maxListed)], quantity.Extended
	return fmt.Sprintf("requests %s, for which no room is planned: more than %d extended resources are offered and asked for at the same time, and others go first",
		formatRequests(requested, short), quantity.Extended)
}

// formatRequests spells out requests: 1 of example.com/a, 2 of example.com/b.
func formatRequests(requested quantity.Amounts, names []string) string {
	var parts []string
	for _, name := range names[:min(len(names), maxListed)] {
		parts = append(parts, quantity.Format(name, requested[name])+" of "+name)
	}
	if more := len(names) - len(parts); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(parts, ", "), more)
	}
	return strings.Join(parts, ", ")
}

// shortage is how far the offerings fall short of a request.
type shortage struct {
	name               string
	requested, largest int64
	largestType        string
	removed            int  // offerings that have less
	noPosition         bool // the resource has no position
}

func (e *explanation) shortage(name string, requested int64, offerings bitset.Set) shortage {
	d, limited := e.snapshot.Resources.RequestPosition(name)
	switch {
	case !limited:
		return shortage{name: name, requested: requested, largest: quantity.Most}
	case d == quantity.NoPosition:
		return shortage{name: name, requested: requested, removed: offerings.Len(), noPosition: true}
	}
	var only quantity.Vector
	only[d] = requested
	s := shortage{name: name, requested: requested, removed: offerings.Minus(e.catalog.WithCapacity(&only)).Len()}
	for i := range offerings.All() {
		if n := max(0, e.catalog.Allocatable[i][d]); n > s.largest {
			s.largest, s.largestType = n, e.catalog.Catalog.Types[e.catalog.Catalog.Offerings[i].Type].Name
		}
	}
	return s
}

// exceeds orders resources without a position first, then requests that no offering can
// meet, by their ratio to the largest amount there is, then by how many offerings have too
// little.
func (s shortage) exceeds(o shortage) bool {
	if s.noPosition != o.noPosition {
		return s.noPosition
	}
	if impossible := s.requested > s.largest; impossible || o.requested > o.largest {
		return impossible && float64(s.requested)/float64(max(1, s.largest)) > float64(o.requested)/float64(max(1, o.largest))
	}
	return s.removed > o.removed
}

// String renders the shortage for people.
func (s shortage) String() string {
	text := fmt.Sprintf("requests %s of %s, the largest instance type has %s", quantity.Format(s.name, s.requested), s.name, quantity.Format(s.name, s.largest))
	if s.name == quantity.NameCPU && s.requested >= 1e9 {
		text += " (CPU request >= 1 Million, m vs M typo?)"
	}
	return text
}

// formatAllRequests lists a request for people: cpu 6, memory 12Gi.
func formatAllRequests(requested quantity.Amounts) string {
	var parts []string
	for _, name := range requested.RequestedNames() {
		if name != quantity.NamePods {
			parts = append(parts, name+" "+quantity.Format(name, min(quantity.Most, requested[name])))
		}
	}
	return strings.Join(parts, ", ")
}
