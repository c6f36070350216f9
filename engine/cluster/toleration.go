// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

func sortedTolerations(ts []Toleration) []Toleration {
	if len(ts) < 2 {
		return ts
	}
	out := slices.Clone(ts)
	slices.SortFunc(out, func(a, b Toleration) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c // the usual case, and a pod may have thousands of tolerations
		}
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.Compact(out)
}

// Tolerates reports whether the tolerations let a pod onto a node with the taints, and if
// not, the first taint that keeps it off. PreferNoSchedule taints keep no pod off.
func Tolerates(tolerations []Toleration, taints []Taint) (Taint, bool) {
	return tolerates(tolerations, taints, false)
}

// tolerates is Tolerates; with strictly, PreferNoSchedule taints count like the others.
func tolerates(tolerations []Toleration, taints []Taint, strictly bool) (Taint, bool) {
	for _, taint := range taints {
		if taint.Effect == PreferNoSchedule && !strictly {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(t Toleration) bool { return t.matches(taint) }) {
			return taint, false
		}
	}
	return Taint{}, true
}

func (t Toleration) matches(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	switch t.Operator {
	case "Exists":
		return t.Key == "" || t.Key == taint.Key
	case "Lt", "Gt":
		return t.Key == taint.Key && t.compares(taint)
	}
	return t.Key == taint.Key && t.Value == taint.Value
}

// compares compares both values as integers; values that are not integers never match.
func (t Toleration) compares(taint Taint) bool {
	bound, err := strconv.ParseInt(t.Value, 10, 64)
	have, err2 := strconv.ParseInt(taint.Value, 10, 64)
	if err != nil || err2 != nil {
		return false
	}
	if t.Operator == "Lt" {
		return have < bound
	}
	return have > bound
}

// String renders the taint as kubectl does: key=value:Effect.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}
