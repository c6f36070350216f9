// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/reason"
)

// manifestError is an error for something in a manifest that cannot be planned for, with its
// parameters as data.
type manifestError struct {
	text  string
	facts map[string]any
}

func (f *manifestError) Error() string { return f.text }

func manifestErrorf(facts map[string]any, format string, args ...any) error {
	return &manifestError{fmt.Sprintf(format, args...), facts}
}

// factsOf extracts the parameters from an error of this package or of an invalid rule.
func factsOf(err error) reason.Facts {
	var f *manifestError
	var e *constraint.RuleError
	switch {
	case errors.As(err, &f):
		return reason.FactsOf(f.facts)
	case errors.As(err, &e):
		return reason.FactsOf(map[string]any{
			"key": e.Rule.Key, "operator": string(e.Rule.Operator), "values": e.Rule.Values[:min(len(e.Rule.Values), maxListed)],
		})
	}
	return nil
}
