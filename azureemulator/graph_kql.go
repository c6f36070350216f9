package azureemulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// graphCondition is what a row must be like.
type graphCondition struct {
	column, operator, value string
	not                     bool
}

// Resource Graph's language as far as it is understood: the table Resources, and where-clauses
// with one comparison each, which may stand in not(…). Strings are in single or double
// quotes, or in tolower(…).
var (
	graphComparison = regexp.MustCompile(`(?is)^(\w+)\s*(==|=~|!=|!~|has_cs\b|has\b)\s*(.+)$`)
	lowered         = regexp.MustCompile(`(?is)^tolower\s*\((.*)\)$`)
	negated         = regexp.MustCompile(`(?is)^not\s*\((.*)\)$`)
	clause          = regexp.MustCompile(`(?is)^where\s+(.*)$`)
)

// columns are those that can be compared.
var columns = []string{"id", "name", "type", "location", "resourceGroup", "subscriptionId", "tags"}

// readKQL reads a query; the error says what is not understood.
func readKQL(query string) ([]graphCondition, error) {
	parts := pipes(query)
	if !strings.EqualFold(strings.TrimSpace(parts[0]), "Resources") {
		return nil, fmt.Errorf("this emulator has the table Resources only, not %q", strings.TrimSpace(parts[0]))
	}
	var conditions []graphCondition
	for _, part := range parts[1:] {
		where := clause.FindStringSubmatch(strings.TrimSpace(part))
		if where == nil {
			return nil, fmt.Errorf("this emulator knows no other operator than where: %q", strings.TrimSpace(part))
		}
		c, err := readCondition(strings.TrimSpace(where[1]))
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}

// pipes cuts a query at those of its bars that are in no string.
func pipes(query string) (parts []string) {
	var quote rune
	begin, escaped := 0, false
	for i, c := range query {
		switch {
		case escaped:
			escaped = false
		case quote != 0 && c == '\\':
			escaped = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && c == '|':
			parts, begin = append(parts, query[begin:i]), i+1
		}
	}
	return append(parts, query[begin:])
}

func readCondition(text string) (graphCondition, error) {
	if inner := negated.FindStringSubmatch(text); inner != nil {
		c, err := readCondition(strings.TrimSpace(inner[1]))
		c.not = !c.not
		return c, err
	}
	m := graphComparison.FindStringSubmatch(text)
	if m == nil {
		return graphCondition{}, fmt.Errorf("this emulator does not understand the condition %q", text)
	}
	i := slices.IndexFunc(columns, func(c string) bool { return c == m[1] })
	if i < 0 {
		return graphCondition{}, fmt.Errorf("failed to resolve column or scalar expression named '%s'", m[1])
	}
	value, err := readString(strings.TrimSpace(m[3]))
	return graphCondition{column: columns[i], operator: strings.ToLower(m[2]), value: value}, err
}

func readString(text string) (string, error) {
	if inner := lowered.FindStringSubmatch(text); inner != nil {
		value, err := readString(strings.TrimSpace(inner[1]))
		return strings.ToLower(value), err
	}
	last := len(text) - 1
	if last < 1 || text[0] != text[last] || text[0] != '\'' && text[0] != '"' {
		return "", fmt.Errorf("this is no string: %s", text)
	}
	var b strings.Builder
	for i := 1; i < last; i++ {
		if text[i] == text[0] {
			return "", fmt.Errorf("this is more than a string: %s", text)
		}
		if text[i] == '\\' {
			if i++; i == last {
				return "", errors.New("a string ends with a backslash")
			}
		}
		b.WriteByte(text[i])
	}
	return b.String(), nil
}

// holds compares a row. Objects are compared as their JSON.
func (c graphCondition) holds(row map[string]any) bool {
	text, plain := row[c.column].(string)
	if !plain && row[c.column] != nil {
		raw, _ := json.Marshal(row[c.column]) // it was read from JSON
		text = string(raw)
	}
	var is bool
	switch c.operator {
	case "==":
		is = text == c.value
	case "!=":
		is = text != c.value
	case "=~":
		is = strings.EqualFold(text, c.value)
	case "!~":
		is = !strings.EqualFold(text, c.value)
	case "has":
		is = hasTerm(strings.ToLower(text), strings.ToLower(c.value))
	case "has_cs":
		is = hasTerm(text, c.value)
	}
	return is != c.not
}

// hasTerm reports whether term stands in text with nothing alphanumeric on either side.
func hasTerm(text, term string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], term)
		if i < 0 || term == "" {
			return false
		}
		begin, end := from+i, from+i+len(term)
		if (begin == 0 || !alphanumeric(text[begin-1])) && (end == len(text) || !alphanumeric(text[end])) {
			return true
		}
		from = begin + 1
	}
}

func alphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
