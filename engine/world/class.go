package world

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
)

// Class is a group of pods that every decision treats alike: same requests,
// requirements, tolerations and priority. A Deployment of 5,000 replicas is one
// Class with 5,000 pods.
type Class struct {
	Priority int32
	Requests quantity.Vector
	// Alternatives are the label requirements: one of them must hold. There is
	// always one, possibly empty; an impossible one stays, to be explained.
	Alternatives []constraint.Set
	Tolerations  []Toleration
	// Refused says why the class cannot be planned for at all; empty when it can.
	Refused reason.Reason
	Detail  string
	// Pods are the pending ones, oldest first; pods of leaving nodes come last.
	Pods []Ref

	signature string
	pods      int // pods folded into the class, bound ones included
	fits      map[*Market]*Fit
}

// String names the class by its first pod, for people.
func (c *Class) String() string {
	if len(c.Pods) == 0 {
		return "no pods"
	}
	return fmt.Sprintf("%s/%s and %d more", c.Pods[0].Namespace, c.Pods[0].Name, len(c.Pods)-1)
}

// newClass compiles what the pods of one signature have in common.
func (b *Builder) newClass(p Pod, signature string) *Class {
	c := &Class{Priority: p.Priority, Tolerations: p.Tolerations, signature: signature, fits: map[*Market]*Fit{}}
	var strange []string
	c.Requests, strange = b.resources.Asked(p.Requests)
	alternatives, err := b.alternatives(p.Required, p.AnyOf)
	c.Alternatives = alternatives
	switch {
	case err != nil:
		c.Refused, c.Detail = reason.Invalid, err.Error()
	case p.Refused != "":
		c.Refused, c.Detail = p.Refused, p.RefusedDetail
	case b.optsOut(alternatives):
		c.Refused, c.Detail = reason.OptedOut, "the pod requires that "+LabelPool+" does not exist"
	case len(strange) > 0:
		c.Refused = reason.Resources
		c.Detail = fmt.Sprintf("more than %d different resources are requested in this cluster; no room is planned for %s", quantity.Dims, strings.Join(strange, ", "))
	}
	return c
}

func (b *Builder) alternatives(required Term, anyOf []Term) ([]constraint.Set, error) {
	base, err := b.space.Set(required)
	if err != nil {
		return nil, err
	}
	if len(anyOf) == 0 {
		return []constraint.Set{base}, nil
	}
	var out []constraint.Set
	for _, term := range anyOf {
		set, err := b.space.Set(term)
		if err != nil {
			return nil, err
		}
		out = append(out, base.And(set))
	}
	return out, nil
}

// optsOut reports whether the pod may only run where no NodePool stands behind
// the node: Karpenter's explicit opt-out.
func (b *Builder) optsOut(alternatives []constraint.Set) bool {
	pool := b.space.Key(LabelPool)
	for _, alt := range alternatives {
		q, ok := alt.Get(pool)
		if !ok || q.PossibleValue() || !q.AdmitsAbsent() {
			return false
		}
	}
	return len(alternatives) > 0
}

// signature writes down everything about a pod that a decision may look at.
func signature(p Pod) string {
	var w strings.Builder
	w.WriteString(strconv.Itoa(int(p.Priority)))
	for _, name := range p.Requests.Names() {
		w.WriteByte(' ')
		w.WriteString(name)
		w.WriteByte('=')
		w.WriteString(strconv.FormatInt(p.Requests[name], 10))
	}
	writeTerm(&w, p.Required)
	for _, t := range p.AnyOf {
		w.WriteString(" or")
		writeTerm(&w, t)
	}
	for _, t := range sortedTolerations(p.Tolerations) {
		fmt.Fprintf(&w, " tolerate %q %q %q %q", t.Key, t.Operator, t.Value, t.Effect)
	}
	if p.Refused != "" {
		fmt.Fprintf(&w, " refused %s %q", p.Refused, p.RefusedDetail)
	}
	return w.String()
}

func writeTerm(w *strings.Builder, t Term) {
	rules := slices.Clone(t)
	slices.SortFunc(rules, func(a, b constraint.Rule) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), slices.Compare(a.Values, b.Values))
	})
	w.WriteString(" {")
	for _, r := range rules {
		fmt.Fprintf(w, "%q %s %q;", r.Key, r.Operator, r.Values)
	}
	w.WriteByte('}')
}

func sortedTolerations(ts []Toleration) []Toleration {
	out := slices.Clone(ts)
	slices.SortFunc(out, func(a, b Toleration) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.Compact(out)
}

// Tolerates reports whether the tolerations let a pod onto a node with the
// taints, and if not, the first taint in the way. PreferNoSchedule never is.
func Tolerates(tolerations []Toleration, taints []Taint) (Taint, bool) {
	for _, taint := range taints {
		if taint.Effect == PreferNoSchedule {
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
	if t.Operator == "Exists" {
		return t.Key == "" || t.Key == taint.Key
	}
	return t.Key == taint.Key && t.Value == taint.Value
}

// String renders the taint as kubectl does: key=value:Effect.
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}
