// SPDX-License-Identifier: Apache-2.0

package schedsim

import "testing"

// Rule CONSOLIDATION-21: a pod may be bound in a zone that then has at most maxSkew more pods
// than the zone with the fewest.
func TestSpreadsAdmitPods(t *testing.T) {
	for name, c := range map[string]struct {
		pods, groups  []int // by zone
		skew, domains int
		want          string // o where a pod may be bound
	}{
		"where there are fewest":                {[]int{1, 2, 2}, []int{1, 1, 1}, 1, 1, "oxx"},
		"anywhere when even":                    {[]int{2, 2, 2}, []int{1, 1, 1}, 1, 1, "ooo"},
		"a wider skew":                          {[]int{0, 1, 2}, []int{1, 1, 1}, 2, 1, "oox"},
		"no zone without a node counts":         {[]int{2, 2, 0}, []int{1, 1, 0}, 1, 1, "ooo"},
		"too few zones count as an empty one":   {[]int{1, 1, 0}, []int{1, 1, 0}, 1, 3, "xxo"},
		"an empty node of the zone counts, too": {[]int{1, 1, 0}, []int{1, 1, 2}, 1, 1, "xxo"},
	} {
		s := spread{&domainCount{pods: c.pods, groups: c.groups}, c.skew, c.domains, true}
		got := ""
		for v := range c.pods {
			if s.admits(v) {
				got += "o"
			} else {
				got += "x"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
