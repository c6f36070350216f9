// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/vmsize"
)

func TestKubeletLabels(t *testing.T) {
	got := kubeletLabels(map[string]string{
		"example.com/team": "a", "karpenter.sh/nodepool": "web", "node.kubernetes.io/pool": "p", "empty": "",
		"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "eastus-1", "app.kubernetes.io/name": "left-to-the-controller",
		"node-restriction.kubernetes.io/x": "left-to-the-controller",
	})
	want := map[string]string{"example.com/team": "a", "karpenter.sh/nodepool": "web", "node.kubernetes.io/pool": "p", "empty": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestGPUKind(t *testing.T) {
	for name, want := range map[string]bootstrap.GPUKind{"A10": bootstrap.Grid, "RTXPRO6000-BSE": bootstrap.GridV20, "A100": bootstrap.CUDA, "H100": bootstrap.CUDA} {
		if got := gpuKind(vmsize.GPU{Manufacturer: vmsize.NVIDIA, Name: name}); got != want {
			t.Errorf("%s: got driver %q, want %q", name, got, want)
		}
	}
}
