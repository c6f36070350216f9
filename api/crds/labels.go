// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/karve-dev/karve/api/v1beta1"
)

// labelField is a place in a schema that holds label keys.
type labelField struct {
	// path leads there from the top of the schema; items is a step into a list.
	path []string
	// isMap tells a map with label keys from a string that is one.
	isMap bool
}

const items = "[]"

func nodePoolLabels() []labelField {
	return []labelField{
		{path: []string{"spec", "template", "metadata", "labels"}, isMap: true},
		{path: []string{"spec", "template", "spec", "requirements", items, "key"}},
	}
}

func nodeClaimLabels() []labelField {
	return []labelField{{path: []string{"spec", "requirements", items, "key"}}}
}

// restrictLabels has the API server refuse label keys that no AKS node can have
// by the user's wish. Such a key, most often a misspelt one, would otherwise
// give a pool that silently never fits anything.
func restrictLabels(crd *apiextensionsv1.CustomResourceDefinition, fields []labelField) error {
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		for _, field := range fields {
			if version.Schema == nil {
				return fmt.Errorf("version %s has no schema", version.Name)
			}
			addRules := func(s *apiextensionsv1.JSONSchemaProps) error {
				s.XValidations = append(s.XValidations, field.rules()...)
				return nil
			}
			if err := change(version.Schema.OpenAPIV3Schema, field.path, addRules); err != nil {
				return fmt.Errorf("version %s, field %s: %w", version.Name, strings.Join(field.path, "."), err)
			}
		}
	}
	return nil
}

// change calls with on the schema at the end of path.
func change(s *apiextensionsv1.JSONSchemaProps, path []string, with func(*apiextensionsv1.JSONSchemaProps) error) error {
	if len(path) == 0 {
		return with(s)
	}
	if path[0] == items {
		if s.Items == nil || s.Items.Schema == nil {
			return fmt.Errorf("not a list of one type")
		}
		return change(s.Items.Schema, path[1:], with)
	}
	child, ok := s.Properties[path[0]]
	if !ok {
		return fmt.Errorf("no property %q", path[0])
	}
	if err := change(&child, path[1:], with); err != nil {
		return err
	}
	s.Properties[path[0]] = child
	return nil
}

// rules are the restrictions as CEL for this field.
func (f labelField) rules() apiextensionsv1.ValidationRules {
	var rules apiextensionsv1.ValidationRules
	for _, r := range restrictions() {
		rules = append(rules, f.rule(r))
	}
	return rules
}

// rule refuses what r does not allow. For a single key the message names it,
// because the API server tells the user only where it stands. For a map that
// would exceed the cost the API server grants a message.
func (f labelField) rule(r restriction) apiextensionsv1.ValidationRule {
	if f.isMap {
		return apiextensionsv1.ValidationRule{
			Rule:    fmt.Sprintf("self.all(k, %s)", r.allows("k")),
			Message: r.subject + " " + r.remedy,
		}
	}
	return apiextensionsv1.ValidationRule{
		Rule:              r.allows("self"),
		Message:           r.subject + " " + r.remedy,
		MessageExpression: fmt.Sprintf("'label ' + self + %s", quote(" "+r.remedy)),
	}
}

// restriction refuses some label keys.
type restriction struct {
	// allows returns the CEL condition under which the key in a variable is fine.
	allows func(variable string) string
	// subject and remedy make the sentence that the user reads; where the label
	// is known, it stands in place of subject.
	subject, remedy string
}

func restrictions() []restriction {
	return []restriction{
		onlyInDomain(v1beta1.Group, v1beta1.AllowedLabels()),
		onlyInDomain(v1beta1.AKSLabelDomain, v1beta1.AllowedAKSLabels()),
		never(v1beta1.LegacyAKSLabels()),
	}
}

// onlyInDomain allows those keys and all keys of other domains.
func onlyInDomain(domain string, keys []string) restriction {
	return restriction{
		allows: func(v string) string {
			return fmt.Sprintf("%s in %s || !%s.split('/')[0].endsWith(%s)", v, list(keys), v, quote(domain))
		},
		subject: "a label under " + domain,
		remedy:  fmt.Sprintf("cannot be used here: of the domain %s only these can: %s", domain, strings.Join(names(keys), ", ")),
	}
}

// never refuses those keys.
func never(keys []string) restriction {
	return restriction{
		allows:  func(v string) string { return fmt.Sprintf("!(%s in %s)", v, list(keys)) },
		subject: "each of the labels " + strings.Join(keys, ", "),
		remedy:  "cannot be used here: AKS sets it itself; use a label with a domain of your own",
	}
}

func names(keys []string) []string {
	var short []string
	for _, k := range keys {
		short = append(short, k[strings.Index(k, "/")+1:])
	}
	return short
}

func list(keys []string) string {
	var quoted []string
	for _, k := range keys {
		quoted = append(quoted, quote(k))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// quote makes a CEL string of text that holds neither quotes nor backslashes.
func quote(text string) string { return "'" + text + "'" }
