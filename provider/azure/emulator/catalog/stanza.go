package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const sizesFile = "sizes.txt"

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

// inherited gives the rules that a series like this one takes over: all but the
// family, as a quota forgotten is better refused than guessed.
func (st *stanza) inherited() []property {
	isFamily := func(p property) bool { return p.name == clauseFamily }
	return slices.DeleteFunc(slices.Clone(st.rules), isFamily)
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

// hasFamily reports whether the stanza has stated its quota family yet.
func (st *stanza) hasFamily() bool {
	return slices.ContainsFunc(st.rules, func(p property) bool { return p.name == clauseFamily })
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
