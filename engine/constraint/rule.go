// SPDX-License-Identifier: Apache-2.0

package constraint

// Operator relates a label to values, spelled as Kubernetes and Karpenter spell it.
type Operator string

const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte" // Karpenter's extension, as is Lte
	Lte          Operator = "Lte"
)

// Rule is one label requirement as it is written in a manifest.
type Rule struct {
	Key      string
	Operator Operator
	Values   []string
	// MinValues is how many distinct values must stay possible, at least; zero means no such
	// minimum.
	MinValues int
}

// RuleError says why a rule is invalid.
type RuleError struct {
	Rule Rule
	Why  string
}

func (e *RuleError) Error() string {
	if e.Rule.Key == "" {
		return "a requirement has no key"
	}
	return "requirement on " + e.Rule.Key + ": " + e.Why
}
