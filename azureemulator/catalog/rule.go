// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// rule gives a property its value for each size of a series:
//
//	8/cpu 96=672     8 per vCPU, but 672 at the size numbered 96
//	2 8+=4 16+=8     2, from number 8 up 4, from number 16 up 8
//
// The first word is the base; of the cases after it, the last that matches wins.
type rule struct {
	base  value
	cases []ruleCase
}

// ruleCase overrides the base at one size ("96=672", "4-2=1") or from one upwards
// ("8+=4"). A case for a full size holds for its constrained sizes too.
type ruleCase struct {
	key    string // the number as written in the size's name
	number int    // its leading part
	up     bool
	value  value
}

// value is a word, or a number that may be meant per vCPU.
type value struct {
	word    string // as written
	number  float64
	numeric bool
	perCPU  bool
}

func parseRule(text string) (rule, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return rule{}, fmt.Errorf("no value")
	}
	r := rule{base: parseValue(words[0])}
	if strings.Contains(words[0], "=") {
		return rule{}, fmt.Errorf("%q comes first, where the base value belongs", words[0])
	}
	for _, word := range words[1:] {
		c, err := parseCase(word)
		if err != nil {
			return rule{}, err
		}
		r.cases = append(r.cases, c)
	}
	return r, nil
}

func parseCase(word string) (ruleCase, error) {
	key, text, found := strings.Cut(word, "=")
	if !found || text == "" {
		return ruleCase{}, fmt.Errorf("%q after the base value is not of the form number=value", word)
	}
	c := ruleCase{value: parseValue(text)}
	c.key, c.up = strings.CutSuffix(key, "+")
	number, err := leadingNumber(c.key)
	if err != nil {
		return ruleCase{}, fmt.Errorf("%q: %w", word, err)
	}
	c.number = number
	if c.up && strings.Contains(c.key, "-") {
		return ruleCase{}, fmt.Errorf("%q: a constrained size cannot start a range", word)
	}
	return c, nil
}

func parseValue(text string) value {
	v := value{word: text}
	digits, perCPU := strings.CutSuffix(text, "/cpu")
	n, err := strconv.ParseFloat(digits, 64)
	if err == nil && n >= 0 && !math.IsInf(n, 1) { // n >= 0 is false of NaN
		v.number, v.numeric, v.perCPU = n, true, perCPU
	}
	return v
}

// at gives the value for the size numbered key, such as "8" or "8-2".
func (r rule) at(key string, number int) value {
	v := r.base
	parent, _, _ := strings.Cut(key, "-")
	for _, c := range r.cases {
		if (c.up && number >= c.number) || (!c.up && (c.key == key || c.key == parent)) {
			v = c.value
		}
	}
	return v
}

// count is the value as a number for a VM of so many vCPUs.
func (v value) count(vcpus int) (float64, error) {
	if !v.numeric {
		return 0, fmt.Errorf("%q is not a number", v.word)
	}
	if v.perCPU {
		return v.number * float64(vcpus), nil
	}
	return v.number, nil
}

// truth is the value as yes or no.
func (v value) truth() (bool, error) {
	switch v.word {
	case "yes":
		return true, nil
	case "no":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither yes nor no", v.word)
}

// text is the value as a word, where "none" stands for no word and ~ for a space.
func (v value) text() string {
	if v.word == "none" {
		return ""
	}
	return strings.ReplaceAll(v.word, "~", " ")
}

// leadingNumber is the first of the numbers in a size's name: 8 for "8-2".
func leadingNumber(key string) (int, error) {
	lead, rest, constrained := strings.Cut(key, "-")
	n, err := strconv.Atoi(lead)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size's number", key)
	}
	if _, err := strconv.Atoi(rest); constrained && err != nil {
		return 0, fmt.Errorf("%q is not a constrained size's number", key)
	}
	return n, nil
}
