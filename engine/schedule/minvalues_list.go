// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
)

// relaxedLabels lists the labels of which the launch's offerings have fewer values than the
// pool asks for, sorted.
func (mc *minValuesChecker) relaxedLabels(l *launch, rows bitset.Set) []string {
	pool := l.pool
	if !pool.hasMinValues() {
		return nil
	}
	var out []string
	for i, n := range mc.countValues(pool, l.requirements.set(), rows, pool.minValues.required, nil).n {
		if n < pool.minValues.required[i] {
			out = append(out, pool.MinValues[i].Key.Name)
		}
	}
	slices.Sort(out)
	return out
}

// markNeededTypes marks instance types that together have the values that the launch needs,
// and returns how many they are.
func (mc *minValuesChecker) markNeededTypes(l *launch, rows bitset.Set, types []bool) int {
	n := 0
	for i := range l.pool.MinValues {
		var seen bitset.Set
		had := 0
		for row := range rows.All() {
			if had >= l.requiredValues[i] {
				break
			}
			more := addValues(&seen, &l.pool.MinValues[i], l.requirements.set(), row)
			had += more
			if t := l.pool.Catalog.Offerings[row].Type; more > 0 && !types[t] {
				types[t] = true
				n++
			}
		}
	}
	return n
}

// listValues returns the values that offerings have of labels with minValues, by label, so
// that a NodeClaim shows how many values there are. A label that some offering lacks is left
// out.
func (mc *minValuesChecker) listValues(l *launch, rows bitset.Set) map[string][]string {
	pool := l.pool
	out := map[string][]string{}
	for i := range pool.MinValues {
		v := &pool.MinValues[i]
		var seen bitset.Set
		lacking := !v.PerOffering()
		for row := range rows.All() {
			addValues(&seen, v, l.requirements.set(), row)
			lacking = lacking || len(v.Values(row)) == 0
		}
		if lacking {
			continue
		}
		for id := range seen.All() {
			out[v.Key.Name] = append(out[v.Key.Name], v.Key.Value(id))
		}
		slices.Sort(out[v.Key.Name])
	}
	return out
}
