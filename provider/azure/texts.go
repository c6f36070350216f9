package azure

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
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

// pointers converts a map of strings to the SDK's form.
func pointers(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// wrap describes the failed call in one line: the SDK's own text of a refusal has many.
func wrap(err error, format string, args ...any) error {
	act := fmt.Sprintf(format, args...)
	if !errors.As(err, new(*azcore.ResponseError)) {
		if advice := unreached(err); advice != "" {
			return fmt.Errorf("%s: %s: %w", act, advice, err)
		}
		return fmt.Errorf("%s: %w", act, err)
	}
	return &callError{act: act, refusal: classify(err)}
}

// callError is a failed call that is not about capacity.
type callError struct {
	act     string
	refusal refusal
}

func (e *callError) Error() string { return e.act + ": " + e.refusal.words() }

func (e *callError) Unwrap() error { return e.refusal.err }
