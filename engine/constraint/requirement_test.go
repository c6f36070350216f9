// SPDX-License-Identifier: Apache-2.0

package constraint_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/constraint"
)

// values are the strings on which the laws are tested; "" stands for a missing label.
var values = []string{"", "a", "b", "c", "-1", "0", "1", "2", "3", "04", "4", "9223372036854775807", "x1"}

// means evaluates one rule directly by Kubernetes' definition of the operator.
func means(r constraint.Rule, value string) bool {
	missing := value == ""
	has := false
	for _, v := range r.Values {
		has = has || v == value
	}
	switch r.Operator {
	case constraint.In:
		return !missing && has
	case constraint.NotIn:
		return missing || !has
	case constraint.Exists:
		return !missing
	case constraint.DoesNotExist:
		return missing
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return false
	}
	bound, _ := strconv.ParseInt(r.Values[0], 10, 64)
	switch r.Operator {
	case constraint.Gt:
		return n > bound
	case constraint.Lt:
		return n < bound
	case constraint.Gte:
		return n >= bound
	}
	return n <= bound
}

func admits(q constraint.Requirement, value string) bool {
	if value == "" {
		return q.AdmitsAbsent()
	}
	return q.Admits(q.Key.ID(value))
}

func randomRule(r *rand.Rand) constraint.Rule {
	some := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = values[1+r.IntN(len(values)-1)]
		}
		return out
	}
	switch r.IntN(8) {
	case 0:
		return constraint.Rule{Key: "k", Operator: constraint.In, Values: some(1 + r.IntN(4))}
	case 1:
		return constraint.Rule{Key: "k", Operator: constraint.NotIn, Values: some(1 + r.IntN(4))}
	case 2:
		return constraint.Rule{Key: "k", Operator: constraint.Exists}
	case 3:
		return constraint.Rule{Key: "k", Operator: constraint.DoesNotExist}
	}
	op := []constraint.Operator{constraint.Gt, constraint.Lt, constraint.Gte, constraint.Lte}[r.IntN(4)]
	bounds := []string{"-9223372036854775808", "-1", "0", "1", "2", "3", "4", "9223372036854775807"}
	return constraint.Rule{Key: "k", Operator: op, Values: []string{bounds[r.IntN(len(bounds))]}}
}

// TestAlgebra tests conjunctions of random rules on every value: the compiled sets, and the
// rules they are converted back to, must mean what the operators mean.
func TestAlgebra(t *testing.T) {
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 7))
		interner := constraint.NewInterner()
		if r.IntN(2) == 0 { // values may be interned before or after the rules
			for _, v := range values[1:] {
				interner.Key("k").ID(v)
			}
		}
		rules := make([]constraint.Rule, 1+r.IntN(4))
		for i := range rules {
			rules[i] = randomRule(r)
		}
		set, err := interner.Set(rules)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := interner.Set(set.Rules())
		if err != nil {
			t.Fatalf("seed %d: rules written back: %v", seed, err)
		}
		anything := false
		for _, v := range values {
			want := true
			for _, rule := range rules {
				want = want && means(rule, v)
			}
			anything = anything || want
			if got := admits(set[0], v); got != want {
				t.Fatalf("seed %d: %v on %q: %v, want %v", seed, rules, v, got, want)
			}
			if got := admits(again[0], v); got != want {
				t.Fatalf("seed %d: %v written back as %v on %q: %v, want %v", seed, rules, set.Rules(), v, got, want)
			}
		}
		if anything && !set[0].Possible() {
			t.Fatalf("seed %d: %v is possible, but not for Possible", seed, rules)
		}
		if v, ok := set[0].AnyValue(); ok && !admits(set[0], v) {
			t.Fatalf("seed %d: AnyValue of %v is %q, which is not admitted", seed, rules, v)
		}
	}
}

// TestAndIsALattice: order and grouping of conjunctions do not matter.
func TestAndIsALattice(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 8))
		interner := constraint.NewInterner()
		var q [3]constraint.Requirement
		for i := range q {
			q[i], _ = interner.Require(randomRule(r))
		}
		same := func(law string, a, b constraint.Requirement) {
			for _, v := range values {
				if admits(a, v) != admits(b, v) {
					t.Fatalf("seed %d: %s fails on %q: %s | %s", seed, law, v, a, b)
				}
			}
		}
		same("commutes", q[0].And(q[1]), q[1].And(q[0]))
		same("associates", q[0].And(q[1]).And(q[2]), q[0].And(q[1].And(q[2])))
		same("is idempotent", q[0].And(q[0]), q[0])
	}
}

func TestPossible(t *testing.T) {
	for _, tc := range []struct {
		rules []constraint.Rule
		want  bool
	}{
		{[]constraint.Rule{{Key: "k", Operator: constraint.Gt, Values: []string{"3"}}, {Key: "k", Operator: constraint.Lt, Values: []string{"5"}}}, true},
		{[]constraint.Rule{{Key: "k", Operator: constraint.Gt, Values: []string{"3"}}, {Key: "k", Operator: constraint.Lt, Values: []string{"5"}}, {Key: "k", Operator: constraint.NotIn, Values: []string{"4"}}}, true}, // "04" is left
		{[]constraint.Rule{{Key: "k", Operator: constraint.Gt, Values: []string{"3"}}, {Key: "k", Operator: constraint.Lt, Values: []string{"4"}}}, false},
		{[]constraint.Rule{{Key: "k", Operator: constraint.Gt, Values: []string{"9223372036854775807"}}}, false},
		{[]constraint.Rule{{Key: "k", Operator: constraint.Exists}, {Key: "k", Operator: constraint.DoesNotExist}}, false},
		{[]constraint.Rule{{Key: "k", Operator: constraint.NotIn, Values: []string{"a"}}, {Key: "k", Operator: constraint.DoesNotExist}}, true},
	} {
		set, err := constraint.NewInterner().Set(tc.rules)
		if err != nil {
			t.Fatal(err)
		}
		if got := set[0].Possible(); got != tc.want {
			t.Errorf("%v: possible %v, want %v", tc.rules, got, tc.want)
		}
	}
}

func TestBadRules(t *testing.T) {
	for _, tc := range []struct {
		rule constraint.Rule
		want string
	}{
		{constraint.Rule{Operator: constraint.In}, "a requirement has no key"},
		{constraint.Rule{Key: "k", Operator: "Near"}, `requirement on k: operator "Near" is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte`},
		{constraint.Rule{Key: "k", Operator: constraint.Gt}, "requirement on k: Gt takes exactly one value, got 0"},
		{constraint.Rule{Key: "k", Operator: constraint.Lte, Values: []string{"four"}}, `requirement on k: Lte takes an integer, got "four"`},
	} {
		_, err := constraint.NewInterner().Require(tc.rule)
		if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%v: %s", tc.rule, diff)
		}
	}
}

// FuzzSet passes arbitrary rules: the answer may be an error but never a panic, and valid
// rules must keep the laws of conjunction.
func FuzzSet(f *testing.F) {
	f.Add("k", "In", "a", "k", "Gt", "3")
	f.Add("k", "Lte", "-9223372036854775808", "k", "NotIn", "")
	f.Fuzz(func(t *testing.T, k1, op1, v1, k2, op2, v2 string) {
		set, err := constraint.NewInterner().Set([]constraint.Rule{
			{Key: k1, Operator: constraint.Operator(op1), Values: []string{v1}},
			{Key: k2, Operator: constraint.Operator(op2), Values: []string{v2}},
		})
		if err != nil {
			return
		}
		for _, q := range set {
			if v, ok := q.AnyValue(); ok && !q.Admits(q.Key.ID(v)) {
				t.Errorf("%s: AnyValue is %q, which is not admitted", q, v)
			}
			if !q.Possible() && q.AdmitsAbsent() {
				t.Errorf("%s is impossible, yet admits a missing label", q)
			}
		}
		sameSet(t, "is idempotent", set.And(set), set)
		interner := constraint.NewInterner()
		a, err := interner.Set([]constraint.Rule{{Key: k1, Operator: constraint.Operator(op1), Values: []string{v1}}})
		if err != nil {
			t.Fatal(err)
		}
		b, err := interner.Set([]constraint.Rule{{Key: k2, Operator: constraint.Operator(op2), Values: []string{v2}}})
		if err != nil {
			t.Fatal(err)
		}
		sameSet(t, "commutes", a.And(b), b.And(a))
		sameSet(t, "associates", a.And(b).And(a), a.And(b.And(a)))
	})
}

// sameSet compares two sets by the rules they are converted to.
func sameSet(t *testing.T, law string, a, b constraint.Set) {
	t.Helper()
	if diff := cmp.Diff(a.Rules(), b.Rules()); diff != "" {
		t.Errorf("conjunction no longer %s:\n%s", law, diff)
	}
}
