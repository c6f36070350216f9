// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// envName is the environment variable that stands for a flag when the flag is
// not given: Karpenter's rule is upper snake case.
func envName(flag string) string {
	if flag == "node-resource-group" { // the one flag upstream names otherwise
		return "AZURE_NODE_RESOURCE_GROUP"
	}
	return strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fillFromEnvironment sets every flag that was not given from its variable. A
// flag wins over the environment; a secret is refused as a flag. All faults are reported together: an
// operator fixes a Deployment once, not five times.
func fillFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var faults []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed && secret(f.Name) {
			faults = append(faults, fmt.Errorf("--%s shows a secret to every user and program that may list processes or read the pod: set %s, from a Secret, instead",
				f.Name, envName(f.Name)))
		}
		if f.Changed || f.Name == "help" {
			return
		}
		value, ok := lookup(envName(f.Name))
		if !ok || value == "" && !hasEmpty(f) {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			faults = append(faults, fmt.Errorf("%s=%q: %w", envName(f.Name), shown(f.Name, value), errors.Unwrap(err)))
		}
	})
	return errors.Join(faults...)
}

// hasEmpty reports whether an empty variable is a value of the flag: a text or a list may be
// empty. Numbers, switches and durations keep their defaults then, as Karpenter has it. So do
// tags: none are their default, and an empty text is no list of pairs.
func hasEmpty(f *pflag.Flag) bool {
	kind := f.Value.Type()
	return kind == "string" || kind == "stringSlice"
}

// shown hides secrets: a value that is wrong still must not reach a log.
func shown(flag, value string) string {
	if secret(flag) {
		return "(hidden)"
	}
	return value
}

// secret reports whether the value of a flag is one.
func secret(flag string) bool { return flag == "kubelet-bootstrap-token" }

// spelled names a setting in a message so that it can be found wherever it was set.
func spelled(flag string) string {
	if secret(flag) {
		return envName(flag)
	}
	return fmt.Sprintf("--%s (or %s)", flag, envName(flag))
}
