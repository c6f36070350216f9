// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Upstream's patterns let through values that no Go client can decode, for
// instance a duration of 9999999h. One such object breaks the list and the watch
// of its whole kind, for every controller, until it is deleted.

// nodePoolSpans lead to the lengths of time in a NodePool.
func nodePoolSpans() [][]string {
	return [][]string{
		{"spec", "template", "spec", "expireAfter"},
		{"spec", "template", "spec", "terminationGracePeriod"},
		{"spec", "disruption", "consolidateAfter"},
		{"spec", "disruption", "budgets", items, "duration"},
	}
}

func nodePoolAmounts() [][]string { return [][]string{{"spec", "limits"}} }

func nodeClaimSpans() [][]string {
	return [][]string{{"spec", "expireAfter"}, {"spec", "terminationGracePeriod"}}
}

func nodeClaimAmounts() [][]string { return [][]string{{"spec", "resources", "requests"}} }

const longestSpan = 64 // characters; bounds what checking one costs the API server

// keepReadable has the API server refuse, at those places, what it could store but
// no Go client decode.
func keepReadable(crd *apiextensionsv1.CustomResourceDefinition, spans, amounts [][]string) error {
	for i := range crd.Spec.Versions {
		schema := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
		for _, path := range spans {
			if err := change(schema, path, boundSpan); err != nil {
				return fmt.Errorf("field %s: %w", strings.Join(path, "."), err)
			}
		}
		for _, path := range amounts {
			if err := change(schema, path, boundAmounts); err != nil {
				return fmt.Errorf("field %s: %w", strings.Join(path, "."), err)
			}
		}
	}
	return nil
}

func boundSpan(s *apiextensionsv1.JSONSchemaProps) error {
	longest := int64(longestSpan)
	s.MaxLength = &longest
	s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{
		Rule:    "self == 'Never' || duration(self) >= duration('0s')",
		Message: "a length of time may be at most 292 years",
	})
	return nil
}

// boundAmounts replaces the pattern of a map of amounts: an exponent has no
// fraction and at most three digits.
func boundAmounts(s *apiextensionsv1.JSONSchemaProps) error {
	if s.AdditionalProperties == nil || s.AdditionalProperties.Schema == nil {
		return fmt.Errorf("not a map of one type")
	}
	s.AdditionalProperties.Schema.Pattern =
		`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$`
	return nil
}
