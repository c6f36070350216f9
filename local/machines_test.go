// SPDX-License-Identifier: Apache-2.0

package local

import (
	"strings"
	"testing"
)

func TestDifferences(t *testing.T) {
	claims := []Claim{{Name: "a", UID: "1"}, {Name: "b", UID: "2"}}
	one, two := Machine{Name: "vm-a", ClaimUID: "1"}, Machine{Name: "vm-b", ClaimUID: "2"}
	for _, test := range []struct {
		name     string
		machines []Machine
		orphans  []string
		want     string // empty: no difference
	}{
		{name: "in step", machines: []Machine{one, two}},
		{name: "missing", machines: []Machine{one}, want: "NodeClaim b has 0 VMs"},
		{name: "duplicate", machines: []Machine{one, two, {Name: "vm-b2", ClaimUID: "2"}}, want: "NodeClaim b has 2 VMs: vm-b, vm-b2"},
		{name: "leaked", machines: []Machine{one, two, {Name: "vm-c", ClaimUID: "3"}}, want: "no NodeClaim has UID 3"},
		{name: "left over", machines: []Machine{one, two}, orphans: []string{"disk x"}, want: "disk x belongs to no VM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := differences(claims, test.machines, test.orphans)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
