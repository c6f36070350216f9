// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/catalog"
)

// The scripts of an image install AKS's driver on what they are told is a GPU node, whatever
// CONFIG_GPU_DRIVER_IF_NEEDED says, unless the VM's tag forbids it; where they cannot, they
// exit.
//
// Rule BOOTSTRAP-10.
func TestScriptsInstallTheDriver(t *testing.T) {
	const ubuntu, azureLinux = "/CommunityGalleries/AKSUbuntu/images/2204gen2containerd/versions/202607.06.0", "/CommunityGalleries/AKSAzureLinux/images/V3gen2/versions/202607.06.0"
	const a100, amd, rtx = "Standard_NC24ads_A100_v4", "Standard_NV28adms_V710_v5", "Standard_NC36ds_xl_RTXPRO6000BSE_v6"
	for name, test := range map[string]struct {
		node, configure, size, image string
		tags                         map[string]string
		installed                    bool
		exits                        string
	}{
		"told to":               {"true", "true", a100, ubuntu, nil, true, ""},
		"told to look first":    {"true", "false", a100, ubuntu, nil, true, ""},
		"not a GPU node":        {"false", "true", a100, ubuntu, nil, false, ""},
		"said nothing":          {"", "", a100, ubuntu, nil, false, ""},
		"tagged":                {"true", "true", a100, ubuntu, map[string]string{"skipGPUDriverInstall": "True"}, false, ""},
		"tagged otherwise":      {"true", "true", a100, ubuntu, map[string]string{"SkipGpuDriverInstall": "false"}, true, ""},
		"another maker's":       {"true", "true", amd, ubuntu, nil, false, "finds no GPU of NVIDIA's"},
		"not for this system":   {"true", "true", rtx, azureLinux, nil, false, "no GPU driver grid-v20"},
		"for this system":       {"true", "true", rtx, ubuntu, nil, true, ""},
		"left to another maker": {"false", "false", amd, ubuntu, nil, false, ""},
	} {
		env := goodEnvironment(testAuthority(t))
		env["GPU_NODE"], env["CONFIG_GPU_DRIVER_IF_NEEDED"] = test.node, test.configure
		p, err := ReadPayload(t.Context(), script(env))
		if err != nil {
			t.Fatal(err)
		}
		err = p.installDriver(azureemulator.VM{Size: catalog.Size{Name: test.size, GPUs: 1}, ImageID: test.image, Tags: test.tags})
		if (err != nil) != (test.exits != "") || err != nil && !strings.Contains(err.Error(), test.exits) {
			t.Errorf("%s: %v, want %q", name, err, test.exits)
		}
		if err == nil && p.GPUDriver != test.installed {
			t.Errorf("%s: driver installed %v", name, p.GPUDriver)
		}
	}
}
