// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"testing"

	"github.com/karve-dev/karve/engine/offering"
)

// Rule CONSOLIDATION-22: the reason for a kept node says by how much its cheapest replacement
// is too expensive.
func TestReplacementCostsMore(t *testing.T) {
	n := &node{price: 86e6}
	for _, tc := range []struct {
		by      offering.Price
		exactly bool
		want    string
	}{
		{0, true, "Can't replace with a cheaper node: the cheapest replacement costs as much as it"},
		{1e6, true, "Can't replace with a cheaper node: the cheapest replacement costs $0.0010/h more than it"},
		{21e6, false, "Can't replace with a cheaper node: the cheapest replacement costs more than $0.0210/h more than it"},
	} {
		if got := replacementCostsMore(n, tc.by, tc.exactly).Detail; got != tc.want {
			t.Errorf("by %d, exactly %t: %q, want %q", tc.by, tc.exactly, got, tc.want)
		}
	}
}
