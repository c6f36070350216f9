// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// A virtual machine is encoded as the SDK encodes it, whatever its content.
func TestEncodedAsBySDK(t *testing.T) {
	for _, os := range []*armcompute.OSProfile{
		nil, {ComputerName: to.Ptr("a")}, {CustomData: to.Ptr(strings.Repeat("aGk+/w==", 3000)), ComputerName: to.Ptr("a")},
		{AdminUsername: to.Ptr(`"customData":""`), CustomData: to.Ptr("b3NQcm9maWxl")},
	} {
		vm := armcompute.VirtualMachine{
			Tags: map[string]*string{`"customData":""`: to.Ptr(`"customData":""`), "customData": to.Ptr("x")},
			Properties: &armcompute.VirtualMachineProperties{OSProfile: os, NetworkProfile: &armcompute.NetworkProfile{
				NetworkInterfaceConfigurations: []*armcompute.VirtualMachineNetworkInterfaceConfiguration{{
					Tags: map[string]*string{"customData": to.Ptr(""), "osProfile": to.Ptr("{")},
				}},
			}},
		}
		want, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		got, err := encodeVM(vm)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
