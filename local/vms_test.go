// SPDX-License-Identifier: Apache-2.0

package local

import (
	"strings"
	"testing"
)

func TestDifferences(t *testing.T) {
	claims := []Claim{{Name: "a", UID: "1"}, {Name: "b", UID: "2"}}
	one, two := VM{Name: "vm-a", ClaimUID: "1"}, VM{Name: "vm-b", ClaimUID: "2"}
	for _, test := range []struct {
		name    string
		vms     []VM
		orphans []string
		want    string // empty: no difference
	}{
		{name: "in step", vms: []VM{one, two}},
		{name: "missing", vms: []VM{one}, want: "NodeClaim b has 0 VMs"},
		{name: "duplicate", vms: []VM{one, two, {Name: "vm-b2", ClaimUID: "2"}}, want: "NodeClaim b has 2 VMs: vm-b, vm-b2"},
		{name: "leaked", vms: []VM{one, two, {Name: "vm-c", ClaimUID: "3"}}, want: "no NodeClaim has UID 3"},
		{name: "left over", vms: []VM{one, two}, orphans: []string{"disk x"}, want: "disk x belongs to no VM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := differences(claims, test.vms, test.orphans)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
