// SPDX-License-Identifier: Apache-2.0

package network

import "testing"

func TestGrantsCoverActions(t *testing.T) {
	for _, c := range []struct {
		actions, not []string
		want         bool
	}{
		{[]string{"*"}, nil, true},
		{[]string{"*/action"}, nil, true},
		{[]string{"*/read"}, nil, false},
		{[]string{"microsoft.network/virtualnetworks/subnets/JOIN/action"}, nil, true},
		{[]string{"Microsoft.Network/virtualNetworks/*/join/action"}, nil, true},
		{[]string{"Microsoft.Network/*/subnets/*"}, nil, true},
		{[]string{"Microsoft.Network/virtualNetworks/subnets/join"}, nil, false},
		{[]string{"Microsoft.Network/virtualNetworks/subnets/join/action/*/action"}, nil, false},
		{[]string{"*"}, []string{"Microsoft.Network/*/join/action"}, false},
		{[]string{"*"}, []string{"Microsoft.Network/*/delete"}, true},
		{nil, nil, false},
	} {
		if got := allowed([]grant{{c.actions, c.not}}, joinAction); got != c.want {
			t.Errorf("%q less %q: %v", c.actions, c.not, got)
		}
	}
	// An action that one role excludes may be granted by another.
	if !allowed([]grant{{[]string{"*"}, []string{"*/join/action"}}, {[]string{joinAction}, nil}}, joinAction) {
		t.Error("a second role does not count")
	}
}
