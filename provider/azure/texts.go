package azure

import (
	"fmt"
	"maps"
	"slices"
)

// text reads an optional string of the SDK.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func sortedTexts(list []*string) []string {
	var out []string
	for _, s := range list {
		if t := text(s); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	slices.Sort(out)
	return out
}

// pointers is what the SDK wants of a map of strings.
func pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// wrap says what was being done when ARM answered with an error, in one line:
// the SDK's own text spans many.
func wrap(err error, format string, args ...any) error {
	return &callError{act: fmt.Sprintf(format, args...), refusal: classify(err)}
}

// callError is a failed call that is not a matter of capacity.
type callError struct {
	act     string
	refusal refusal
}

func (e *callError) Error() string { return e.act + ": " + e.refusal.words() }

func (e *callError) Unwrap() error { return e.refusal.err }
