// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Text writes a world for people, in YAML without what is empty. Whatever fits is on one line.
func (w *World) Text() string {
	var b strings.Builder
	tree, _ := compact(w.tree()).(map[string]any)
	for _, kind := range []string{"Types", "Quota", "Settings", "Overlays", "Namespaces", "NodePools", "NodeClaims", "Nodes", "CSINodes", "StorageClasses", "Volumes", "VolumeClaims", "DaemonSets", "Pods", "Buffers"} {
		if v, ok := tree[kind]; ok {
			fmt.Fprintf(&b, "%s:", kind)
			write(&b, v, 2)
		}
	}
	return b.String()
}

// noise are fields that say nothing to a reader.
var noise = []string{"creationTimestamp", "lastTransitionTime", "apiVersion", "image", "resourceVersion"}

// meaningful are fields that mean something when they are empty.
var meaningful = []string{"labelSelector", "namespaceSelector", "value", "tier", "team", "example.com/cores", "example.com/family"}

// compact leaves out what is empty, and noise.
func compact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			c := compact(value)
			if c == nil && slices.Contains(meaningful, key) && value != nil {
				c = value
			}
			if c != nil && !slices.Contains(noise, key) {
				out[key] = c
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	case []any:
		var out []any
		for _, value := range v {
			c := compact(value)
			if text, ok := value.(string); ok {
				c = text
			}
			if c != nil {
				out = append(out, c)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	return v
}

const width = 120

func write(b *strings.Builder, v any, indent int) {
	if line := flow(v); indent > 0 && indent+len(line) < width {
		fmt.Fprintf(b, " %s\n", line)
		return
	}
	pad := strings.Repeat(" ", indent)
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('\n')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(b, "%s%s:", pad, key)
			write(b, v[key], indent+2)
		}
	case []any:
		b.WriteByte('\n')
		for _, item := range v {
			fmt.Fprintf(b, "%s-", pad)
			write(b, item, indent+2)
		}
	default:
		fmt.Fprintf(b, " %s\n", flow(v))
	}
}

// flow writes a value on one line.
func flow(v any) string {
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+": "+flow(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, flow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		if _, err := strconv.ParseFloat(v, 64); v == "" || err == nil || strings.ContainsAny(v, ":{}[],#\"") {
			return strconv.Quote(v)
		}
		return v
	}
	text, _ := json.Marshal(v)
	return string(text)
}
