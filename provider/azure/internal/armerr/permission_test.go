// SPDX-License-Identifier: Apache-2.0

package armerr

import (
	"strings"
	"testing"
)

// Rule PERMISSION-2.
func TestMissingPermissionsSayWhichRole(t *testing.T) {
	const authorization = "The client 'c' with object id 'o-1' does not have authorization to perform action '%' over scope '/subscriptions/s/x' or the scope is invalid. If access was recently granted, please refresh your credentials."
	const linked = "The client 'c' with object id 'o-1' has permission to perform action 'Microsoft.Compute/virtualMachines/write' on scope '/vm'; however, it does not have permission to perform action(s) '%' on the linked scope(s) '/subscriptions/s/x' (respectively) or the linked scope(s) are invalid."
	for _, test := range []struct{ code, message, action, role string }{
		{"LinkedAuthorizationFailed", linked, "Microsoft.Network/virtualNetworks/subnets/join/action", `the role "Network Contributor"`},
		{"LinkedAuthorizationFailed", linked, "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action", `the role "Managed Identity Operator"`},
		{"AuthorizationFailed", authorization, "Microsoft.Compute/virtualMachines/write", `the role "Virtual Machine Contributor"`},
		{"AuthorizationFailed", authorization, "Microsoft.Compute/disks/delete", `the role "Virtual Machine Contributor"`},
		{"AuthorizationFailed", authorization, "microsoft.network/loadbalancers/read", `the role "Network Contributor"`},
		{"AuthorizationFailed", authorization, "Microsoft.Compute/locations/usages/read", `the role "Reader"`},
		{"AuthorizationFailed", authorization, "Microsoft.Compute/diskEncryptionSets/read", `the role "Reader"`},
		{"AuthorizationFailed", authorization, "Microsoft.Storage/things/write", "assign a role with"},
	} {
		err := armError(403, "", `{"error":{"code":"`+test.code+`","message":"`+strings.ReplaceAll(test.message, "%", test.action)+`"}}`)
		words := Wrap(err, "acting").Error()
		for _, part := range []string{"acting: " + test.code + ": assign ", test.role, test.action, "object id o-1", " on /subscriptions/s/x"} {
			if !strings.Contains(words, part) {
				t.Errorf("%s of %s lacks %q: %s", test.code, test.action, part, words)
			}
		}
		if len(words) > 800 {
			t.Errorf("%d letters are too many", len(words))
		}
	}
	if r := Classify(armError(403, "", `{"error":{"code":"AuthorizationFailed","message":"no."}}`)); !strings.Contains(r.Describe(), "check the identity") {
		t.Errorf("without the action there is no next step: %s", r.Describe())
	}
}
