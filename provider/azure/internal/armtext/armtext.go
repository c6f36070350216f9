// SPDX-License-Identifier: Apache-2.0

// Package armtext reads the optional strings of Azure's SDK, writes them, and lists names in
// messages.
package armtext

import (
	"fmt"
	"slices"
	"strings"
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

// Few lists the first names of many.
func Few(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
