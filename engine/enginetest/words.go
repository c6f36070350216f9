// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// aliases are the short names of label keys.
var aliases = [][2]string{
	{"zone", cluster.LabelZone}, {"host", cluster.LabelHostname}, {"type", cluster.LabelInstanceType}, {"capacity-type", cluster.LabelCapacityType},
}

// label reads a label key.
func label(text string) string {
	for _, a := range aliases {
		if text == a[0] {
			return a[1]
		}
	}
	return plain(text)
}

// plain undoes percent escapes; text that is not an escape does not change.
func plain(text string) string {
	if out, err := url.PathUnescape(text); err == nil {
		return out
	}
	return text
}

func list(text string) []string {
	out := strings.Split(text, "|")
	for i, v := range out {
		out[i] = plain(v)
	}
	return out
}

func int32Of(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err
}

// grouped collects rules of numbered terms: or:1:key=…, or:1:other=…
type grouped map[string]int

func (g grouped) add(terms []cluster.Term, rest, value string) []cluster.Term {
	id, key, numbered := strings.Cut(rest, ":")
	if !numbered {
		if rest == "" && value == "" {
			return append(terms, cluster.Term{})
		}
		return append(terms, cluster.Term{rule(rest, value)})
	}
	i, ok := g[id]
	if !ok {
		i = len(terms)
		g[id] = i
		terms = append(terms, nil)
	}
	terms[i] = append(terms[i], rule(key, value))
	return terms
}

func taint(key, value string) cluster.Taint {
	v, effect, _ := strings.Cut(value, ":")
	return cluster.Taint{Key: plain(key), Value: plain(v), Effect: cluster.Effect(effect)}
}

// toleration: key=value:Effect tolerates that value, key=:Effect every value, and
// key==:Effect the empty one; an empty key tolerates every taint.
func toleration(key, value string) cluster.Toleration {
	v, effect, _ := strings.Cut(value, ":")
	t := cluster.Toleration{Key: plain(key), Operator: "Equal", Value: plain(v), Effect: cluster.Effect(effect)}
	switch v {
	case "":
		t.Operator = "Exists"
	case "=":
		t.Value = ""
	}
	return t
}

// rule: key=Op:a|b, or key=Op>=2:a|b for one with minValues.
func rule(key, value string) constraint.Rule {
	op, values, some := strings.Cut(value, ":")
	op, least, _ := strings.Cut(op, ">=")
	r := constraint.Rule{Key: label(key), Operator: constraint.Operator(op)}
	if least != "" {
		r.MinValues, _ = strconv.Atoi(least)
	}
	if some {
		r.Values = list(values)
	}
	return r
}

// selectLabels reads a selector: nothing for a missing selector, * for every pod, else rules.
func selectLabels(s *cluster.Selector, text string) error {
	if text == "nothing" {
		s.Nothing, s.Labels = true, nil
		return nil
	}
	var err error
	s.Labels, err = selector(text)
	return err
}

// selector: app=web|api,tier!=db,new,!old as kubectl writes them, with | between
// values; * selects everything.
func selector(text string) (cluster.Term, error) {
	out := cluster.Term{}
	if text == "*" {
		return out, nil
	}
	for _, part := range strings.Split(text, ",") {
		key, values, valued := strings.Cut(part, "=")
		absent := strings.HasPrefix(key, "!")
		not := strings.HasSuffix(key, "!") && valued
		r := constraint.Rule{Key: label(strings.Trim(key, "!"))}
		switch {
		case r.Key == "" && !valued:
			return nil, fmt.Errorf("%q is not a selector: say app=web|api,tier!=db", text)
		case absent:
			r.Operator = constraint.DoesNotExist
		case !valued:
			r.Operator = constraint.Exists
		case not:
			r.Operator, r.Values = constraint.NotIn, list(values)
		default:
			r.Operator, r.Values = constraint.In, list(values)
		}
		out = append(out, r)
	}
	return out, nil
}

// amount reads cpu=500m, mem=16Gi, disk=100Gi, gpu=1 and any other resource=N. It accepts only
// names that Kubernetes accepts, so that a typo is an error.
func amount(into quantity.Amounts, key, text string) error {
	name, err := resource(key)
	if err != nil {
		return err
	}
	scale := int64(1)
	if name == quantity.NameCPU {
		scale = 1000
		if short, ok := strings.CutSuffix(text, "m"); ok {
			scale, text = 1, short
		}
	}
	for _, unit := range units {
		if short, ok := strings.CutSuffix(text, unit.suffix); ok {
			scale, text = unit.bytes, short
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && scale == 1 {
		into[name] = n
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return fmt.Errorf("%q is not an amount of %s", text, key)
	}
	into[name] = int64(max(math.MinInt64, min(math.MaxInt64/2, f*float64(scale))))
	return nil
}

var units = []struct {
	suffix string
	bytes  int64
}{{"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}}

func resource(key string) (string, error) {
	switch key {
	case "mem":
		return quantity.NameMemory, nil
	case "disk":
		return quantity.NameStorage, nil
	case "gpu":
		return "nvidia.com/gpu", nil
	}
	known := []string{quantity.NameCPU, quantity.NameMemory, quantity.NameStorage, quantity.NamePods, quantity.NameNodes}
	if slices.Contains(known, key) || strings.Contains(key, "/") || strings.HasPrefix(key, "hugepages-") || strings.HasPrefix(key, quantity.Attachable) {
		return plain(key), nil
	}
	return "", fmt.Errorf("%q is neither a word of this line nor a resource", key)
}
