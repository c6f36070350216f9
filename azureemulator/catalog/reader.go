// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"
)

const sizesFile = "sizes.txt"

// sizesReader reads sizes.txt line by line.
type sizesReader struct {
	defaults []property
	series   map[string]*stanza
	order    []*stanza
	// now is the stanza being read; nil while the defaults are.
	now *stanza
}

// parseSizes reads the text of sizes.txt.
func parseSizes(text string) ([]Size, error) {
	r := sizesReader{series: map[string]*stanza{}}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := r.line(strings.TrimSpace(line), n); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", sizesFile, n, err)
		}
	}
	var sizes []Size
	for _, st := range r.order {
		some, err := st.sizes()
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, some...)
	}
	return sizes, nil
}

func (r *sizesReader) line(line string, n int) error {
	if line == "" || line[0] == '#' || line == "defaults" && r.now == nil {
		return nil
	}
	if words := strings.Fields(line); words[0] == "series" {
		return r.open(words[1:], n)
	}
	for clause := range strings.SplitSeq(line, ";") {
		name, text, _ := strings.Cut(strings.TrimSpace(clause), " ")
		if name == "" {
			continue // a semicolon at the end of the line
		}
		if err := r.clause(name, text, n); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// open starts a stanza: "series D#ds_v5 like D#s_v5".
func (r *sizesReader) open(words []string, n int) error {
	if len(words) != 1 && (len(words) != 3 || words[1] != "like") {
		return fmt.Errorf("want \"series NAME\" or \"series NAME like OTHER\"")
	}
	st := &stanza{line: n, series: words[0], rules: slices.Clone(r.defaults)}
	if strings.Count(st.series, "#") != 1 {
		return fmt.Errorf("series %q must have one # where the number goes", st.series)
	}
	if first := r.series[st.series]; first != nil {
		return fmt.Errorf("series %s is already on line %d", st.series, first.line)
	}
	if len(words) == 3 {
		other := r.series[words[2]]
		if other == nil {
			return fmt.Errorf("series %s is like %s, which is not above it", st.series, words[2])
		}
		st.rules = other.inherited()
	}
	r.series[st.series], r.now = st, st
	r.order = append(r.order, st)
	return nil
}

func (r *sizesReader) clause(name, text string, n int) error {
	switch {
	case r.now == nil:
		r.defaults = append(r.defaults, property{name: name})
		return setRule(&r.defaults, property{name: name, line: n}, text, 0)
	case name == clauseSizes:
		return addNumbers(&r.now.numbers, text, false)
	case name == clauseConstrained:
		return addNumbers(&r.now.constrained, text, true)
	case name == clauseFamily && !r.now.hasFamily():
		r.now.rules = append(r.now.rules, property{name: name})
	}
	return setRule(&r.now.rules, property{name: name, line: n}, text, r.now.line)
}

// setRule gives p its rule in place of the inherited one. One set since the line
// on which the stanza began was set by the stanza itself.
func setRule(rules *[]property, p property, text string, since int) (err error) {
	if p.rule, err = parseRule(text); err != nil {
		return err
	}
	i := slices.IndexFunc(*rules, func(q property) bool { return q.name == p.name })
	if i < 0 {
		return fmt.Errorf("no such property; the defaults name them all")
	}
	if (*rules)[i].line > since {
		return fmt.Errorf("said twice")
	}
	(*rules)[i] = p
	return nil
}

func addNumbers(numbers *[]string, text string, constrained bool) error {
	for _, key := range strings.Fields(text) {
		if _, err := leadingNumber(key); err != nil {
			return err
		}
		if strings.Contains(key, "-") != constrained {
			return fmt.Errorf("%s: N-M belongs with %q, N with %q", key, clauseConstrained, clauseSizes)
		}
		if slices.Contains(*numbers, key) {
			return fmt.Errorf("%s is there twice", key)
		}
		*numbers = append(*numbers, key)
	}
	return nil
}
