// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/karve-dev/karve/api/access"
)

// SurgeConfig is where karve restarts Deployments to move their only pod.
type SurgeConfig struct {
	SurgeNamespaces []string
}

func (c *SurgeConfig) bind(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.SurgeNamespaces, surgeNamespaces, nil, "namespaces, comma separated, in which Deployments with the annotation karve.dev/surge are restarted to move their only pod without downtime, or "+access.EveryNamespace+" for all; karve rbac with the same flag prints the role for it (default: none)")
}

const surgeNamespaces = "surge-namespaces"

func (c SurgeConfig) check(f *faults) {
	err := checkNamespaces(c.SurgeNamespaces)
	f.check(err == nil, surgeNamespaces, "%v", err)
}

func checkNamespaces(all []string) error {
	if slices.Equal(all, []string{access.EveryNamespace}) {
		return nil
	}
	for _, namespace := range all {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return fmt.Errorf("must be names of namespaces, or %s alone, got %q", access.EveryNamespace, namespace)
		}
	}
	return nil
}
