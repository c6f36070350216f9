// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Facts are the parameters of a decision as data, sorted by name, each name once. In JSON
// they are one object.
type Facts []Fact

// Fact is one parameter. Value is a string, an int64, a []string or a
// map[string]int64. Amounts of resources are in base units (see package quantity).
type Fact struct {
	Name  string
	Value any
}

// FactsOf sorts facts by name. It converts an int to an int64 and leaves out empty strings,
// lists and maps, which carry no information.
func FactsOf(values map[string]any) Facts {
	var out Facts
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		if !isEmpty(value) {
			out = append(out, Fact{name, value})
		}
	}
	return out
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case string:
		return v == ""
	case []string:
		return len(v) == 0
	case map[string]int64:
		return len(v) == 0
	}
	return value == nil
}

// Get returns the value of that name; nil when there is none.
func (fs Facts) Get(name string) any {
	for _, f := range fs {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// Text renders the value of that name for people; empty when there is none.
func (fs Facts) Text(name string) string { return text(fs.Get(name)) }

// Text renders the value for people: lists as [a b], counts as [a:1 b:2].
func (f Fact) Text() string { return text(f.Value) }

func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case []string:
		return "[" + strings.Join(v, " ") + "]"
	case map[string]int64:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+":"+strconv.FormatInt(v[name], 10))
		}
		return text(parts)
	}
	return ""
}

// MarshalJSON renders the facts as one object.
func (fs Facts) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, len(fs))
	for _, f := range fs {
		out[f.Name] = f.Value
	}
	return json.Marshal(out)
}
