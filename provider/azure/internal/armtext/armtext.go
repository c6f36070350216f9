// Package armtext reads the optional strings of Azure's SDK, and writes them.
package armtext

import (
	"slices"
)

// Of reads an optional string; a nil one is empty.
func Of(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Sorted returns the strings that are not empty, each once, in order.
func Sorted(list []*string) []string {
	var out []string
	for _, s := range list {
		if t := Of(s); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return out
}

// Pointers converts a map of strings to the SDK's form.
func Pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}
