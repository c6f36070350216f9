// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// stanza is a series of sizes.txt: its numbers and the rules they follow.
type stanza struct {
	series      string
	line        int
	numbers     []string
	constrained []string
	// rules holds one rule for each property, inherited ones included, in the
	// order of the defaults; family comes after those.
	rules []property
}

type property struct {
	name string
	line int
	rule rule
}

// Clauses that are more than a property.
const (
	clauseSizes       = "sizes"
	clauseConstrained = "constrained"
	clauseFamily      = "family"
	clauseCPU         = "cpu"
)

// inherited gives the rules that a series like this one takes over: all but the
// family, as a quota forgotten is better refused than guessed.
func (st *stanza) inherited() []property {
	isFamily := func(p property) bool { return p.name == clauseFamily }
	return slices.DeleteFunc(slices.Clone(st.rules), isFamily)
}

// hasFamily reports whether the stanza has stated its quota family yet.
func (st *stanza) hasFamily() bool {
	return slices.ContainsFunc(st.rules, func(p property) bool { return p.name == clauseFamily })
}

// sizes makes the sizes of the series.
func (st *stanza) sizes() ([]Size, error) {
	if len(st.numbers) == 0 {
		return nil, fmt.Errorf("%s:%d: series %s has no sizes", sizesFile, st.line, st.series)
	}
	if err := st.checkCases(); err != nil {
		return nil, err
	}
	var sizes []Size
	for _, key := range slices.Concat(st.numbers, st.constrained) {
		s, err := st.size(key)
		if err != nil {
			return nil, err
		}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", sizesFile, st.line, err)
		}
		sizes = append(sizes, s)
	}
	return sizes, nil
}

// checkCases finds cases for sizes that the series does not have. Those it took
// over from the series it is like may well be for other sizes.
func (st *stanza) checkCases() error {
	for _, p := range st.rules {
		for _, c := range p.rule.cases {
			known := c.up || slices.Contains(st.numbers, c.key) || slices.Contains(st.constrained, c.key)
			if p.line > st.line && !known {
				return fmt.Errorf("%s:%d: %s %s=%s: series %s has no size %s", sizesFile, p.line, p.name, c.key, c.value.word, st.series, c.key)
			}
		}
	}
	return nil
}

// size makes the size numbered key, such as "8" or "8-2".
func (st *stanza) size(key string) (Size, error) {
	number, err := leadingNumber(key)
	if err != nil {
		return Size{}, fmt.Errorf("%s:%d: %w", sizesFile, st.line, err)
	}
	s := Size{Name: st.name(key), Series: st.series, Tier: "Standard", number: key}
	if s.VCPUs, err = st.vcpus(key, number); err != nil {
		return Size{}, err
	}
	s.VCPUsAvailable = s.VCPUs
	if parent, left, constrained := strings.Cut(key, "-"); constrained {
		if !slices.Contains(st.numbers, parent) {
			return Size{}, fmt.Errorf("%s:%d: %s has no parent %s", sizesFile, st.line, s.Name, st.name(parent))
		}
		s.Parent = st.name(parent)
		s.VCPUsAvailable, _ = strconv.Atoi(left) // leadingNumber has seen that it is one
	}
	for _, p := range st.rules {
		if err := s.set(p.name, p.rule.at(key, number)); err != nil {
			return Size{}, fmt.Errorf("%s:%d: %s of %s: %w", sizesFile, p.line, p.name, s.Name, err)
		}
	}
	return s, nil
}

func (st *stanza) name(key string) string {
	return "Standard_" + strings.Replace(st.series, "#", key, 1)
}

// vcpus follows the rule "cpu", whose base "name" stands for the size's number.
func (st *stanza) vcpus(key string, number int) (int, error) {
	for _, p := range st.rules {
		if p.name != clauseCPU {
			continue
		}
		v := p.rule.at(key, number)
		if v.word == "name" {
			return number, nil
		}
		n, err := v.count(0)
		if err != nil {
			return 0, fmt.Errorf("%s:%d: cpu: %w", sizesFile, p.line, err)
		}
		return int(n), nil
	}
	return number, nil
}
