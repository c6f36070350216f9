// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
)

// A size whose node joined without its GPU is blocked in every zone for its class; other sizes
// are not, and neither are other classes.
//
// Rule REFUSAL-11.
func TestInstanceTypeWithoutItsGPUIsBlocked(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().twoClasses()
	p := r.provider(t)
	snapshot(t, p)
	before, _ := blocked(t, p, "other")
	p.NodeUnusable("default", onDemand("Standard_D4s_v5", "eastus-1"), `Resource "nvidia.com/gpu" was requested but not registered`)
	p.NodeUnusable("default", onDemand("Standard_Z99", "eastus-1"), "nobody knows this size")
	if now, why := blocked(t, p, "other"); now != before {
		t.Errorf("another class lost %d offerings: %s", now-before, why)
	}
	s := snapshot(t, p)
	for _, o := range mustFind(t, s, "Standard_D4s_v5").Offerings {
		if o.Unavailable == "" {
			t.Errorf("the size is still on sale in %s as %s", o.Zone, o.CapacityType)
		}
	}
	for _, o := range mustFind(t, s, "Standard_D8s_v5").Offerings {
		if o.Unavailable != "" {
			t.Errorf("a larger size of its family rests too: %s", o.Unavailable)
		}
	}
}

// When GPUs of several models are missing, in sizes of one class, the device plugin is the
// cause: all sizes with GPUs are blocked for the class, for an hour, and those without are not.
//
// Rule REFUSAL-12.
func TestMissingDevicePluginBlocksGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).twoClasses()
		p := r.provider(t)
		resting := func(class string) (gpus, plain int, why string) {
			t.Helper()
			s, err := p.Catalog(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range s.Types {
				for _, o := range k.Offerings {
					if !strings.Contains(o.Unavailable, "not registered") {
						continue
					}
					if _, has := k.Labels[v1beta1.LabelSKUGPUCount]; has {
						gpus, why = gpus+1, o.Unavailable
						continue
					}
					plain++
				}
			}
			return gpus, plain, why
		}
		const lacks = `Resource "nvidia.com/gpu" was requested but not registered`
		resting("default") // reads the sizes of the region
		counts := []int{}
		for _, size := range []string{"Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3", "Standard_NC16as_T4_v3", "Standard_NC24ads_A100_v4"} {
			p.NodeUnusable("default", onDemand(size, "eastus-1"), lacks)
			n, _, _ := resting("default")
			counts = append(counts, n)
		}
		n, plain, why := resting("default")
		if plain > 0 || counts[0] == 0 || counts[2] > 3*counts[0] || counts[3] <= 5*counts[0] || !strings.Contains(why, "device plugin") {
			t.Errorf("resting after each of four: %v, and %d offerings without GPUs: %s", counts, plain, why)
		}
		if n, _, _ := resting("other"); n > 0 {
			t.Errorf("%d offerings of another class are unavailable", n)
		}
		time.Sleep(time.Hour + time.Second)
		if left, _, _ := resting("default"); left > 0 {
			t.Errorf("an hour later %d of %d rest", left, n)
		}
	})
}
