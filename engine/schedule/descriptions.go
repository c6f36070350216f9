// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// plan makes the Plan of what was decided.
func (s *solver) plan() Plan {
	var p Plan
	if s.preferences.options.noLaunches {
		s.makePoolStates() // to explain what could have been launched
	}
	for _, i := range slices.Sorted(maps.Keys(s.nodes.nominations)) {
		p.Nominations = append(p.Nominations, Nomination{Node: s.snapshot.Nodes[i].Key, Pods: s.nodes.nominations[i]})
	}
	p.Launches = s.descriptions.launchesOfPlan()
	p.Unplaced = s.leftOut()
	p.CutShort = s.searches.list()
	if !s.preferences.options.skipLowerBound {
		p.LowerBound = s.lowerBound()
	}
	return p
}

// descriptions turns the round's launches into the Launches of the plan.
type descriptions struct {
	snapshot       *cluster.Snapshot
	pools          *poolList
	launches       *launchList
	quota          *quota
	topology       *topology
	requirements   *requirementSets
	minValues      *minValuesChecker
	offerings      *offeringChooser
	described      []Launch // see launchesOfPlan
	byKey          map[descriptionKey]*launchDescription
	runnersUpByKey map[runnersUpKey][]RunnerUp          // see runnersUp
	shapeNumbers   map[*cluster.PodShape]int            // see shapeNumber
	amountsOf      map[quantity.Vector]quantity.Amounts // see amounts
	key            []byte                               // scratch: of a set of offerings
	groupShapes    []int                                // scratch: the pod shapes on a launch
	types          []string                             // scratch: see describeNew
}

// launchesOfPlan describes the launches. It does so only once, because describing them
// reserves limits.
func (ds *descriptions) launchesOfPlan() []Launch {
	if ds.described == nil {
		ds.described = slices.Grow(ds.described, len(ds.launches.all))
		for _, l := range ds.launches.all {
			ds.described = append(ds.described, ds.chooseAndDescribe(l))
		}
	}
	return ds.described
}

// launchDescription is what alike launches share.
type launchDescription struct {
	launch        Launch
	moreExpensive []RunnerUp // the next offerings of other instance types
}

// descriptionKey is the key by which alike launches share their description.
type descriptionKey struct {
	pool         *cluster.PoolCatalog
	requirements *nodeRequirements
	rows         string
}

// chooseAndDescribe turns a launch into rules for a NodeClaim and a list of offerings. It chooses
// the first offering and reserves what that takes of limits and quota: call it once for each
// launch. Launches that accept the same offerings with the same requirements share both.
func (ds *descriptions) chooseAndDescribe(l *launch) Launch {
	pool := l.pool
	accepted := ds.offerings.chooseAndReserve(l)
	rows := accepted.rows
	ds.key = rows.Append(ds.key[:0])
	d := ds.byKey[descriptionKey{pool.PoolCatalog, l.requirements, string(ds.key)}]
	if d == nil {
		d = ds.describeNew(l, rows)
		ds.byKey[descriptionKey{pool.PoolCatalog, l.requirements, string(ds.key)}] = d
	}
	out := d.launch
	out.RunnersUp = ds.runnersUp(l, d, accepted.holdingBefore(l.first))
	out.Pods = l.pods
	daemons := pool.DaemonOverhead[l.row]
	out.Requests, out.Daemons = ds.amounts(l.used.Add(daemons)), ds.amounts(daemons)
	return out
}

// amounts converts the vector. Launches that ask for the same share the result.
func (ds *descriptions) amounts(v quantity.Vector) quantity.Amounts {
	a, ok := ds.amountsOf[v]
	if !ok {
		a = ds.snapshot.Resources.Amounts(v)
		ds.amountsOf[v] = a
	}
	return a
}

// describeNew makes what the launch shares with launches like it.
func (ds *descriptions) describeNew(l *launch, rows bitset.Set) *launchDescription {
	pool := l.pool
	out := Launch{Pool: pool.Pool.Name, Taints: pool.Pool.Taints, Labels: maps.Clone(pool.Pool.Labels)}
	types := ds.types[:0]
	var zones, capacityTypes []string
	var next []RunnerUp
	named := make([]bool, len(pool.Catalog.Types))
	out.Offerings = make([]offering.Ref, 0, rows.Len())
	for row := range rows.All() {
		c := pool.Catalog.Ref(row)
		out.Offerings = append(out.Offerings, c)
		if t := pool.Catalog.Offerings[row].Type; !named[t] {
			named[t], types = true, append(types, c.Type)
			next = addMoreExpensive(next, pool.Pool.Name, out.Offerings[0], c)
		}
		zones, capacityTypes = appendIfNew(zones, c.Zone), appendIfNew(capacityTypes, c.CapacityType)
	}
	slices.Sort(zones)
	slices.Sort(capacityTypes)
	chosen := ds.minValues.listValues(l, rows)
	chosen[cluster.LabelInstanceType], chosen[cluster.LabelZone], chosen[cluster.LabelCapacityType] = slices.Clone(types), zones, capacityTypes
	ds.types = types
	out.Rules = ds.rules(l, chosen)
	out.Labels = addSingleValued(out.Labels, out.Rules)
	out.Relaxed = ds.minValues.relaxedLabels(l, rows)
	return &launchDescription{launch: out, moreExpensive: next}
}

// addSingleValued adds the labels to which the rules leave one value. Some of them only the pool
// sets: without them here the node would not have them, and kube-scheduler would never bind the
// pods there that it was launched for.
func addSingleValued(labels map[string]string, rules []constraint.Rule) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	for _, r := range rules {
		if r.Operator == constraint.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	return labels
}

// appendIfNew appends v unless it is there.
func appendIfNew(values []string, v string) []string {
	if slices.Contains(values, v) {
		return values
	}
	return append(values, v)
}

// rules describe the launch's requirements. Instance types, zones and capacity types are
// those of its offerings: types cheapest first, the others by name. A label that the pool leaves open gets one value: a
// node cannot carry "any".
func (ds *descriptions) rules(l *launch, chosen map[string][]string) []constraint.Rule {
	var out []constraint.Rule
	written := map[string]bool{}
	for _, q := range l.requirements.set() {
		key := q.Key.Name
		if key == cluster.LabelHostname {
			continue
		}
		written[key] = true
		switch values, ok := chosen[key]; {
		case ok:
			out = append(out, constraint.Rule{Key: key, Operator: constraint.In, Values: values})
		case l.pool.Catalog.HasLabel(q.Key):
			out = append(out, q.Rules()...)
		default:
			out = append(out, singleValue(q)...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(chosen)) {
		if !written[key] {
			out = append(out, constraint.Rule{Key: key, Operator: constraint.In, Values: chosen[key]})
		}
	}
	slices.SortStableFunc(out, func(a, b constraint.Rule) int {
		switch {
		case a.Key < b.Key:
			return -1
		case a.Key > b.Key:
			return 1
		}
		return 0
	})
	return out
}

// singleValue sets one value for a label that only the pool sets on its nodes.
func singleValue(q constraint.Requirement) []constraint.Rule {
	if q.AdmitsAbsent() {
		return q.Rules()
	}
	return []constraint.Rule{{Key: q.Key.Name, Operator: constraint.In, Values: []string{valueOf(q)}}}
}

// valueOf is the value that singleValue sets for a label that must be present.
func valueOf(q constraint.Requirement) string {
	if v, ok := q.AnyValue(); ok {
		return v
	}
	return q.Fresh("true")
}
