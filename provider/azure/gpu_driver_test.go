// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

// A size for whose GPU the class's image has no driver is skipped, and not offered to the class
// again for a while.
//
// Rule REFUSAL-10.
func TestInstanceTypeWithoutADriverIsPassedOver(t *testing.T) {
	const newer, older = "Standard_NC36ds_xl_RTXPRO6000BSE_v6", "Standard_D2s_v5"
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, Location: "westus2", Quota: map[string]int{"StandardNCdsRTXPRO6000BSEv6XLFamily": 1000}}) // images of 2025
	r.options.Location = "westus2"
	p := r.provider(t)
	only := claim("train", onDemand(newer, "westus2-1"))
	var capacity *provider.CapacityError
	if _, err := p.Launch(t.Context(), only); !errors.As(err, &capacity) || len(capacity.Refused) != 1 || capacity.Refused[0].Code != "NoGPUDriver" ||
		!strings.Contains(capacity.Refused[0].Detail, "use a newer image") {
		t.Errorf("a claim that accepts nothing else: %v, %+v", err, capacity)
	}
	both := claim("any", onDemand(newer, "westus2-1"), onDemand(older, "westus2-1"))
	if in, _ := run(t, p, both); in.Type != older {
		t.Errorf("launched %s", in.Type)
	}
	if o := find(snapshot(t, p), newer); o == nil || o.Offerings[0].Unavailable == "" {
		t.Errorf("%s is offered to the class: %+v", newer, o)
	}
}

// If the users of the node class install the GPU driver, for example with NVIDIA's GPU Operator,
// the image gets no GPU settings: its scripts would otherwise install AKS's driver on a GPU node,
// or exit if they have none.
//
// Rule BOOTSTRAP-10.
func TestUsersBringTheDriver(t *testing.T) {
	const a100, rtx = "Standard_NC24ads_A100_v4", "Standard_NC36ds_xl_RTXPRO6000BSE_v6"
	for _, contract := range []bootstrap.Contract{bootstrap.Environment, bootstrap.Structured} {
		for _, size := range []string{a100, rtx} {
			guest := bootRecorder{make(chan azureemulator.VM, 1)}
			r := newRegion(t, azureemulator.Options{SystemNodes: -1, Location: "westus2", Guest: guest, DefaultFamilyCores: 1000})
			r.options.Location, r.options.BootstrapContract = "westus2", contract
			c := class("1.36.3")
			c.Spec.GPU = &v1beta1.GPU{Mode: to.Ptr(v1beta1.GPUModeNone)}
			r.class.Store(c)
			run(t, r.provider(t), claim("train", onDemand(size, "westus2-1")))
			m := <-guest.booted
			env, err := node.Environment(context.Background(), m.CustomData, "")
			if err != nil {
				t.Fatal(err)
			}
			if env["GPU_NODE"] != "false" || env["CONFIG_GPU_DRIVER_IF_NEEDED"] != "false" {
				t.Errorf("%s, %s: GPU_NODE=%s CONFIG_GPU_DRIVER_IF_NEEDED=%s", contract, size, env["GPU_NODE"], env["CONFIG_GPU_DRIVER_IF_NEEDED"])
			}
		}
	}
}
