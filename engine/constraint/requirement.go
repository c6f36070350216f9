package constraint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/bitset"
)

// Requirement is what one label may be. Which operator admits a missing label
// follows Kubernetes: NotIn and DoesNotExist do, all others do not.
type Requirement struct {
	Key *Key
	// values are the admitted values, or with except the refused ones.
	values bitset.Set
	except bool
	// low and high bound the label as an integer, inclusively, when bounded. Only
	// complements carry bounds: a finite set is filtered by them at once.
	low, high int64
	bounded   bool
	// absent admits that the label is missing.
	absent bool
}

// Require reads one rule. Its error says what is wrong with the rule.
func (s *Space) Require(r Rule) (Requirement, error) {
	if r.Key == "" {
		return Requirement{}, &RuleError{r, "the key is empty"}
	}
	k := s.Key(r.Key)
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

// Values returns the requirement that the label is one of the values.
func (k *Key) in(values []string) Requirement {
	q := Requirement{Key: k}
	for _, v := range values {
		q.values.Put(k.ID(v))
	}
	return q
}

// In is the requirement that the label key is present with one of the values.
func (s *Space) In(key string, values ...string) Requirement { return s.Key(key).in(values) }

// Only is the requirement that the label is present with the value of that number.
func (k *Key) Only(id int) Requirement { return Requirement{Key: k, values: bitset.Of(id)} }

// Present is the requirement that the label is there, whatever its value.
func (k *Key) Present() Requirement { return Requirement{Key: k, except: true} }

// Missing is the requirement that the label is not there.
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
		return Requirement{Key: k}, nil // nothing is beyond the last integer
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

// And returns what both admit. The keys must be the same.
func (q Requirement) And(o Requirement) Requirement {
	out := Requirement{Key: q.Key, absent: q.absent && o.absent}
	switch {
	case q.except && o.except:
		out.except = true
		out.values = q.values.Or(o.values)
		out.bounded = q.bounded || o.bounded
		out.low, out.high = max(q.lowest(), o.lowest()), min(q.highest(), o.highest())
		return out
	case q.except:
		out.values = q.within(o.values.Minus(q.values))
	case o.except:
		out.values = o.within(q.values.Minus(o.values))
	default:
		out.values = q.values.And(o.values)
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

// within keeps the values that respect q's bounds.
func (q Requirement) within(values bitset.Set) bitset.Set {
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

// Admits reports whether the label may have the value with that number.
func (q Requirement) Admits(id int) bool {
	if !q.except {
		return q.values.Has(id)
	}
	return !q.values.Has(id) && q.inBounds(id)
}

// AdmitsAbsent reports whether the label may be missing.
func (q Requirement) AdmitsAbsent() bool { return q.absent }

// Possible reports whether anything at all is admitted.
func (q Requirement) Possible() bool {
	return q.absent || q.PossibleValue()
}

// PossibleValue reports whether some value, rather than a missing label, is admitted.
func (q Requirement) PossibleValue() bool {
	if !q.except {
		return !q.values.Empty()
	}
	// However many numbers are excluded, each has more spellings ("4", "04").
	return q.lowest() <= q.highest()
}

// Values lists the admitted values, sorted, when they are finitely many.
func (q Requirement) Values() ([]string, bool) {
	if q.except {
		return nil, false
	}
	out := q.listed()
	return out, true
}

// Single is the one value that the label must have; false when there is a choice.
func (q Requirement) Single() (string, bool) {
	values, finite := q.Values()
	if !finite || q.absent || len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// Any returns one admitted value, always the same for the same requirement: the
// least of a finite set, the bound of an open one. It reports false when there is
// none or when any string would do.
func (q Requirement) Any() (string, bool) {
	if !q.except {
		values := q.listed()
		if len(values) == 0 {
			return "", false
		}
		return values[0], true
	}
	if !q.bounded || !q.PossibleValue() {
		return "", false
	}
	if q.low == math.MinInt64 {
		return q.Fresh(strconv.FormatInt(q.high, 10)), true
	}
	return q.Fresh(strconv.FormatInt(q.low, 10)), true
}

// Fresh returns hint, changed until q admits it, for an open requirement that
// takes almost any string. A number stays the same number, zeros put before it.
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

// Rules writes q as manifest rules that together mean the same; values are
// sorted. An open set with bounds and exclusions takes up to three.
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

// shortList keeps long value lists readable in an event.
func shortList(values []string) string {
	const most = 6
	if len(values) <= most {
		return "[" + strings.Join(values, ", ") + "]"
	}
	return fmt.Sprintf("[%s, … %d more]", strings.Join(values[:most], ", "), len(values)-most)
}
