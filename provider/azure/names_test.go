// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"regexp"
	"strings"
	"testing"
)

func TestVMName(t *testing.T) {
	dns := regexp.MustCompile(`^aks-[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	seen := map[string]bool{}
	for _, claim := range []string{"web-abcde", "", "---", "Große.Knoten", strings.Repeat("very-long-pool-name-", 10), "a.b_c"} {
		for _, uid := range []string{"1" + claim, "2" + claim} {
			name := vmNameFor(claim, uid)
			if !dns.MatchString(name) || len(name) > maxVMName {
				t.Errorf("machineName(%q) = %q", claim, name)
			}
			if name != vmNameFor(claim, uid) || seen[name] {
				t.Errorf("machineName(%q, %q) = %q is not its own", claim, uid, name)
			}
			seen[name] = true
		}
	}
}

func TestClusterLabel(t *testing.T) {
	for group, want := range map[string]string{
		"MC_a_b_eastus":                  "MC_a_b_eastus",
		"MC_(x)_y":                       "MC_-x-_y",
		strings.Repeat("a", 62) + "_cut": strings.Repeat("a", 62) + "z",
		"ends.":                          "endsz",
	} {
		if got := clusterLabel(group); got != want {
			t.Errorf("clusterLabel(%q) = %q, want %q", group, got, want)
		}
	}
}
