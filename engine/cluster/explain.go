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

// OwnRequirements is the Detail of a cut that does not depend on the pods.
const OwnRequirements = "the pool's own requirements"

// mostListed bounds the lists in one fact, so that people can read the explanation.
const maxListed = 12

// Funnel explains step by step, one filter after the other, how the catalog's offerings
// narrow to those that Compatible finds for the shape. It is computed only for pods without
// a place, so nothing of it is kept.
func (m *PoolCatalog) Funnel(c *PodShape, w *Snapshot) []reason.Cut {
	e := explanation{poolCatalog: m, shape: c, snapshot: w, left: bitset.Upto(len(m.Catalog.Offerings))}
	e.cut(reason.Requirements, m.Offerings, e.ofPool)
	e.cut(reason.Requirements, m.anyAlternative(c.own), e.ofPod)
	e.cut(reason.Volumes, m.anyAlternative(c.Alternatives), e.ofVolumes)
	if taint, ok := tolerates(c.Tolerations, m.Pool.Taints, c.AvoidSoft); !ok {
		e.cut(reason.Taints, nil, func(bitset.Set) (string, map[string]any) { return ofTaint(taint) })
	}
	asked := c.requestsAloneVector()
	e.cut(reason.Resources, m.WithRoom(&asked), e.ofResources)
	if taken := m.portsTakenFrom(c); !taken.Empty() {
		e.cut(reason.Ports, e.left.Minus(taken), e.ofPorts)
	}
	return e.cuts
}

// aloneVector is what one pod of the shape takes on an otherwise empty node.
func (c *PodShape) requestsAloneVector() quantity.Vector {
	asked := c.Requests
	for _, mount := range c.Mounts {
		asked[mount.Dim]++
	}
	return asked
}

// explanation is a funnel under construction.
type explanation struct {
	poolCatalog *PoolCatalog
	shape       *PodShape
	snapshot    *Snapshot
	left        bitset.Set
	cuts        []reason.Cut
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

// ofPool says how many offerings each of the pool's requirements would remove by itself.
func (e *explanation) ofPool(before bitset.Set) (string, map[string]any) {
	alone := map[string]int64{}
	for _, q := range e.poolCatalog.Base {
		if n := before.Len() - e.poolCatalog.Catalog.Matching(q).Len(); e.poolCatalog.Catalog.HasLabel(q.Key) && n > 0 {
			alone[q.String()] = int64(n)
		}
	}
	return OwnRequirements, map[string]any{"by": "pool", "requirements": first(alone)}
}

// ofPod names the requirement of the pods that removes the most offerings by itself. Ties go to
// a requirement on an unknown label.
func (e *explanation) ofPod(before bitset.Set) (string, map[string]any) {
	if q, bad := contradiction(e.shape.own); bad {
		return "the pod's own requirements on " + q.Key.Name + " contradict each other", map[string]any{"by": "pod", "key": q.Key.Name}
	}
	var worst constraint.Requirement
	most, alone := 0, map[string]int64{}
	for _, alt := range e.shape.own {
		for _, q := range alt {
			n := e.excluded(q, before)
			if n == 0 || !q.Possible() {
				continue
			}
			alone[q.String()] = int64(n)
			if n > most || n == most && !e.snapshot.knowsLabel(q.Key) && e.snapshot.knowsLabel(worst.Key) {
				worst, most = q, n
			}
		}
	}
	if most == 0 {
		return "no instance type meets all of the pod's requirements together", map[string]any{"by": "pod"}
	}
	facts := map[string]any{"by": "pod", "requirement": worst.String(), "key": worst.Key.Name, "known": e.known(worst.Key), "requirements": first(alone)}
	if values, ok := worst.Values(); ok {
		facts["values"] = values[:min(len(values), maxListed)]
	}
	if e.snapshot.knowsLabel(worst.Key) {
		return worst.String(), facts
	}
	nearest := e.snapshot.nearestLabel(worst.Key)
	facts["unknown"], facts["nearest"] = worst.Key.Name, nearest
	if nearest == "" {
		return worst.String() + ", a label that no offer, pool or node has", facts
	}
	return worst.String() + ", a label that no offer, pool or node has; the nearest is " + nearest, facts
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

// excluded is how many of the offerings the requirement would remove by itself.
func (e *explanation) excluded(q constraint.Requirement, rows bitset.Set) int {
	set := constraint.Set{q}
	return rows.Len() - e.poolCatalog.admitted(e.poolCatalog.Base.And(set), set).And(rows).Len()
}

// known lists the values of a label that nodes of the pool can have.
func (e *explanation) known(k *constraint.Key) []string {
	q, own := e.poolCatalog.Base.Get(k)
	if !e.poolCatalog.Catalog.HasLabel(k) {
		if values, finite := q.Values(); own && finite {
			return values[:min(len(values), maxListed)]
		}
		return nil
	}
	var out []string
	for _, id := range e.poolCatalog.Catalog.IDs(k) {
		if !own || q.Admits(id) {
			out = append(out, k.Value(id))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), maxListed)]
}

// ofVolumes names the volume that can be mounted with the fewest offerings.
func (e *explanation) ofVolumes(before bitset.Set) (string, map[string]any) {
	var worst *Volume
	least := 0
	for i := range e.shape.volumes {
		v := &e.shape.volumes[i]
		if len(v.AnyOf) == 0 {
			continue
		}
		if n := e.mountable(v).And(before).Len(); worst == nil || n < least {
			worst, least = v, n
		}
	}
	if worst == nil {
		return "a volume of the pod cannot be mounted there", map[string]any{"volumes": len(e.shape.volumes)}
	}
	wanted := formatTerms(worst.AnyOf)
	facts := map[string]any{"driver": worst.Driver, "wanted": wanted}
	name := "a volume of the pod"
	if worst.Shared {
		// Only shared volumes have IDs that distinguish pod shapes.
		facts["volume"], name = worst.ID, "volume "+worst.ID
	}
	return name + " can be mounted only where " + strings.Join(wanted, " or "), facts
}

// mountable returns the offerings on whose nodes the volume can be mounted.
func (e *explanation) mountable(v *Volume) bitset.Set {
	var sets []constraint.Set
	for _, term := range v.AnyOf {
		if set, err := e.snapshot.Space.Set(term); err == nil { // an invalid term has made the shape Refused
			sets = append(sets, set)
		}
	}
	return e.poolCatalog.anyAlternative(sets)
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

func ofTaint(t Taint) (string, map[string]any) {
	return "pod does not tolerate taint " + t.String(), map[string]any{"taint": t.String(), "key": t.Key, "value": t.Value, "effect": string(t.Effect)}
}

// ofPorts lists the ports that DaemonSets take.
func (e *explanation) ofPorts(before bitset.Set) (string, map[string]any) {
	ports := e.poolCatalog.PortsTaken(e.shape, before)
	return "a DaemonSet takes host port " + strings.Join(ports, ", "), map[string]any{"ports": ports}
}

// ofResources names the resource that is shortest, and the largest amount there is of it.
func (e *explanation) ofResources(before bitset.Set) (string, map[string]any) {
	asked := e.shape.requestsAlone()
	alone, requests := map[string]int64{}, map[string]int64{}
	var worst shortage
	for _, name := range asked.Asked() {
		s := e.shortage(name, min(quantity.Most, asked[name]), before)
		requests[name] = s.asked
		if s.removed > 0 {
			alone[name] = int64(s.removed)
		}
		if worst.name == "" || s.exceeds(worst) {
			worst = s
		}
	}
	facts := map[string]any{
		"resource": worst.name, "asked": worst.asked, "largest": worst.largest, "largestType": worst.largestType,
		"resources": alone, "requests": requests,
	}
	switch {
	case worst.unplanned:
		return e.ofUnplanned(facts), facts
	case !e.left.Empty():
		return "requests " + formatAllRequests(e.shape.requestsByName), facts
	case worst.asked <= worst.largest:
		return "no single type holds all of its requests together", facts
	}
	return worst.String(), facts
}

// ofUnplanned names the resources that nothing offers. When everything that the pod requests
// is offered somewhere, it names the resources for which there is no position.
func (e *explanation) ofUnplanned(facts map[string]any) string {
	asked := e.shape.requestsAlone()
	var unoffered, short []string
	for _, name := range asked.Asked() {
		switch d, _ := e.snapshot.Resources.Place(name); {
		case d != quantity.Unoffered:
		case e.snapshot.Resources.Short(name):
			short = append(short, name)
		default:
			unoffered = append(unoffered, name)
		}
	}
	if len(unoffered) > 0 {
		facts["unoffered"] = unoffered[:min(len(unoffered), maxListed)]
		return "requests " + formatRequests(asked, unoffered) + ", which no instance type and no node offers"
	}
	facts["unplanned"], facts["most"] = short[:min(len(short), maxListed)], quantity.Extended
	return fmt.Sprintf("requests %s, for which no room is planned: more than %d extended resources are offered and asked for at the same time, and others go first",
		formatRequests(asked, short), quantity.Extended)
}

// listed spells out requests: 1 of example.com/a, 2 of example.com/b.
func formatRequests(asked quantity.Amounts, names []string) string {
	var parts []string
	for _, name := range names[:min(len(names), maxListed)] {
		parts = append(parts, quantity.Format(name, asked[name])+" of "+name)
	}
	if more := len(names) - len(parts); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(parts, ", "), more)
	}
	return strings.Join(parts, ", ")
}

// shortage is how far the offerings fall short of a request.
type shortage struct {
	name           string
	asked, largest int64
	largestType    string
	removed        int  // offerings that have less
	unplanned      bool // the resource has no position
}

func (e *explanation) shortage(name string, asked int64, rows bitset.Set) shortage {
	d, limited := e.snapshot.Resources.Place(name)
	switch {
	case !limited:
		return shortage{name: name, asked: asked, largest: quantity.Most}
	case d == quantity.Unoffered:
		return shortage{name: name, asked: asked, removed: rows.Len(), unplanned: true}
	}
	var only quantity.Vector
	only[d] = asked
	s := shortage{name: name, asked: asked, removed: rows.Minus(e.poolCatalog.WithRoom(&only)).Len()}
	for i := range rows.All() {
		if n := max(0, e.poolCatalog.Allocatable[i][d]); n > s.largest {
			s.largest, s.largestType = n, e.poolCatalog.Catalog.Types[e.poolCatalog.Catalog.Offerings[i].Type].Name
		}
	}
	return s
}

// exceeds orders resources without a position first, then requests that no offering can
// meet, by their ratio to the largest amount there is, then by how many offerings have too
// little.
func (s shortage) exceeds(o shortage) bool {
	if s.unplanned != o.unplanned {
		return s.unplanned
	}
	if vain := s.asked > s.largest; vain || o.asked > o.largest {
		return vain && float64(s.asked)/float64(max(1, s.largest)) > float64(o.asked)/float64(max(1, o.largest))
	}
	return s.removed > o.removed
}

// String renders the shortage for people.
func (s shortage) String() string {
	text := fmt.Sprintf("requests %s of %s, the largest instance type has %s", quantity.Format(s.name, s.asked), s.name, quantity.Format(s.name, s.largest))
	if s.name == quantity.NameCPU && s.asked >= 1e9 {
		text += " (CPU request >= 1 Million, m vs M typo?)"
	}
	return text
}

// describe lists a request for people: cpu 6, memory 12Gi.
func formatAllRequests(asked quantity.Amounts) string {
	var parts []string
	for _, name := range asked.Asked() {
		if name != quantity.NamePods {
			parts = append(parts, name+" "+quantity.Format(name, min(quantity.Most, asked[name])))
		}
	}
	return strings.Join(parts, ", ")
}
