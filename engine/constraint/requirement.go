// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
)

// Requirement is the set of values that one label may have. Whether a label may be missing
// follows Kubernetes: NotIn and DoesNotExist admit a missing label, all other operators do
// not.
type Requirement struct {
	Key *Key
	// values are the admitted values or, with except, the excluded ones.
	values bitset.Sparse
	except bool
	// low and high bound the label as an integer, inclusively, if bounded is set. Only
	// complements have bounds: a finite set is filtered by them at once.
	low, high int64
	bounded   bool
	// absent is set when the label may be missing.
	absent bool
}

// Require compiles one rule. It returns an error when the rule is invalid.
func (in *Interner) Require(r Rule) (Requirement, error) {
	if r.Key == "" {
		return Requirement{}, &RuleError{r, "the key is empty"}
	}
	k := in.Key(r.Key)
	switch r.Operator {
	case In:
		return k.in(r.Values), nil
	case NotIn:
		q := k.in(r.Values)
		q.except, q.absent = true, true
		return q, nil
	case Exists:
		return Requirement{Key: k, except: true}, nil
	case DoesNotExist:
		return Requirement{Key: k, absent: true}, nil
	case Gt, Lt, Gte, Lte:
		return k.bound(r)
	}
	return Requirement{}, &RuleError{r, fmt.Sprintf("operator %q is not one of In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte", r.Operator)}
}

// in returns the requirement that the label has one of the values.
func (k *Key) in(values []string) Requirement {
	q := Requirement{Key: k}
	for _, v := range values {
		q.values.Put(k.ID(v))
	}
	return q
}

// In returns the requirement that the label key is present with one of the values.
func (in *Interner) In(key string, values ...string) Requirement { return in.Key(key).in(values) }

// Only returns the requirement that the label is present with the value of that ID.
func (k *Key) Only(id int) Requirement {
	q := Requirement{Key: k}
	q.values.Put(id)
	return q
}

// Among returns the requirement that the label is present with one of the values of these IDs.
func (k *Key) Among(ids bitset.Set) Requirement {
	q := Requirement{Key: k}
	q.values.Assign(ids)
	return q
}

// Except returns the requirement that the label has none of the values of these IDs. It may be missing.
func (k *Key) Except(ids bitset.Set) Requirement {
	q := k.Among(ids)
	q.except, q.absent = true, true
	return q
}

// Present returns the requirement that the label is present, whatever its value.
func (k *Key) Present() Requirement { return Requirement{Key: k, except: true} }

// Missing returns the requirement that the label is missing.
func (k *Key) Missing() Requirement { return Requirement{Key: k, absent: true} }

func (k *Key) bound(r Rule) (Requirement, error) {
	if len(r.Values) != 1 {
		return Requirement{}, &RuleError{r, fmt.Sprintf("%s takes exactly one value, got %d", r.Operator, len(r.Values))}
	}
	n, err := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil {
		return Requirement{}, &RuleError{r, fmt.Sprintf("%s takes an integer, got %q", r.Operator, r.Values[0])}
	}
	q := Requirement{Key: k, except: true, bounded: true, low: math.MinInt64, high: math.MaxInt64}
	switch {
	case r.Operator == Gt && n == math.MaxInt64, r.Operator == Lt && n == math.MinInt64:
		return Requirement{Key: k}, nil // no integer is beyond the last one
	case r.Operator == Gt:
		q.low = n + 1
	case r.Operator == Gte:
		q.low = n
	case r.Operator == Lt:
		q.high = n - 1
	case r.Operator == Lte:
		q.high = n
	}
	return q, nil
}

// Others returns the requirement that the label is present with a value that q does not admit. It
// reports false when there is none, and where q has bounds.
func (q Requirement) Others() (Requirement, bool) {
	other := Requirement{Key: q.Key, values: q.values, except: !q.except}
	return other, !q.bounded && other.AdmitsSomeValue()
}

// And returns the values that both admit. The keys must be the same.
func (q Requirement) And(o Requirement) Requirement {
	out := Requirement{Key: q.Key, absent: q.absent && o.absent}
	switch {
	case q.except && o.except:
		out.except = true
		out.values = q.values.Or(&o.values)
		out.bounded = q.bounded || o.bounded
		out.low, out.high = max(q.lowest(), o.lowest()), min(q.highest(), o.highest())
		return out
	case q.except:
		out.values = q.within(o.values.Minus(&q.values))
	case o.except:
		out.values = o.within(q.values.Minus(&o.values))
	default:
		out.values = q.values.And(&o.values)
	}
	return out
}

func (q Requirement) lowest() int64 {
	if !q.bounded {
		return math.MinInt64
	}
	return q.low
}

func (q Requirement) highest() int64 {
	if !q.bounded {
		return math.MaxInt64
	}
	return q.high
}

// within keeps the values within q's bounds.
func (q Requirement) within(values bitset.Sparse) bitset.Sparse {
	if !q.bounded {
		return values
	}
	kept := values.Clone()
	for id := range values.All() {
		if !q.inBounds(id) {
			kept.Drop(id)
		}
	}
	return kept
}

func (q Requirement) inBounds(id int) bool {
	if !q.bounded {
		return true
	}
	return q.Key.isNumber[id] && q.low <= q.Key.numbers[id] && q.Key.numbers[id] <= q.high
}

// Admits reports whether the label may have the value with that ID.
func (q Requirement) Admits(id int) bool {
	if !q.except {
		return q.values.Has(id)
	}
	return !q.values.Has(id) && q.inBounds(id)
}

// AdmitsAbsent reports whether the label may be missing.
func (q Requirement) AdmitsAbsent() bool { return q.absent }

// Possible reports whether any value, or a missing label, is admitted.
func (q Requirement) Possible() bool {
	return q.absent || q.AdmitsSomeValue()
}

// AdmitsSomeValue reports whether any value is admitted; a missing label does not count.
func (q Requirement) AdmitsSomeValue() bool {
	if !q.except {
		return !q.values.Empty()
	}
	// Excluded values cannot exhaust the integers: each has more spellings ("4", "04").
	return q.lowest() <= q.highest()
}

// Values lists the admitted values, sorted; false when they are not a finite list.
func (q Requirement) Values() ([]string, bool) {
	if q.except {
		return nil, false
	}
	out := q.listed()
	return out, true
}

// Named returns the IDs of the values that q names, without its bounds: those that it admits or, when
// it reports false, those that it does not admit. They must not be changed.
func (q Requirement) Named() (ids bitset.Sparse, only bool) { return q.values, !q.except }

// HasBounds reports whether q bounds the label as an integer.
func (q Requirement) HasBounds() bool { return q.bounded }

// Single is the one value that the label must have; false when there is a choice.
func (q Requirement) Single() (string, bool) {
	values, finite := q.Values()
	if !finite || q.absent || len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// AnyValue returns one admitted value, always the same for the same requirement: the least value
// of a finite set, or a bound of a bounded complement. It reports false when there is none,
// or when there are no bounds and almost any string is admitted.
func (q Requirement) AnyValue() (string, bool) {
	if !q.except {
		return q.least()
	}
	if !q.bounded || !q.AdmitsSomeValue() {
		return "", false
	}
	if q.low == math.MinInt64 {
		return q.Fresh(strconv.FormatInt(q.high, 10)), true
	}
	return q.Fresh(strconv.FormatInt(q.low, 10)), true
}

// least is the first of the values that q lists, in the order of strings.
func (q Requirement) least() (least string, ok bool) {
	for id := range q.values.All() {
		if v := q.Key.values[id]; !ok || v < least {
			least, ok = v, true
		}
	}
	return least, ok
}

// Fresh returns hint, changed until q admits it. q must be a complement, which admits almost
// any string. A number keeps its value: it gets leading zeros.
func (q Requirement) Fresh(hint string) string {
	for {
		id, known := q.Key.ids[hint]
		if !known || q.Admits(id) {
			return hint
		}
		switch {
		case !q.bounded:
			hint += "x"
		case hint[0] == '-':
			hint = "-0" + hint[1:]
		default:
			hint = "0" + hint
		}
	}
}

func (q Requirement) listed() []string {
	out := make([]string, 0, q.values.Len())
	for id := range q.values.All() {
		out = append(out, q.Key.values[id])
	}
	slices.Sort(out)
	return out
}

// Rules returns q as manifest rules that together mean the same, with sorted values. A
// complement with bounds and exclusions takes up to three rules.
func (q Requirement) Rules() []Rule {
	key := q.Key.Name
	if !q.except {
		if q.values.Empty() && q.absent {
			return []Rule{{Key: key, Operator: DoesNotExist}}
		}
		return []Rule{{Key: key, Operator: In, Values: q.listed()}}
	}
	var rules []Rule
	if q.lowest() > math.MinInt64 {
		rules = append(rules, Rule{Key: key, Operator: Gte, Values: []string{strconv.FormatInt(q.low, 10)}})
	}
	if q.highest() < math.MaxInt64 || q.bounded && len(rules) == 0 {
		rules = append(rules, Rule{Key: key, Operator: Lte, Values: []string{strconv.FormatInt(q.high, 10)}})
	}
	if !q.values.Empty() {
		rules = append(rules, Rule{Key: key, Operator: NotIn, Values: q.listed()})
	}
	if !q.absent && (len(rules) == 0 || rules[0].Operator == NotIn) {
		rules = append(rules, Rule{Key: key, Operator: Exists})
	}
	return rules
}

// String renders q for people: `zone In [1 2]`.
func (q Requirement) String() string {
	var parts []string
	for _, r := range q.Rules() {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, ", ")
}

// String renders the rule for people.
func (r Rule) String() string {
	if len(r.Values) == 0 {
		return r.Key + " " + string(r.Operator)
	}
	return fmt.Sprintf("%s %s %s", r.Key, r.Operator, shortList(r.Values))
}

// shortList shortens long value lists, to keep events readable.
func shortList(values []string) string {
	const most = 6
	if len(values) <= most {
		return "[" + strings.Join(values, ", ") + "]"
	}
	return fmt.Sprintf("[%s, … %d more]", strings.Join(values[:most], ", "), len(values)-most)
}
