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

func TestImageVersion(t *testing.T) {
	for id, want := range map[string]string{
		"/CommunityGalleries/g/images/2204gen2containerd/versions/202607.06.0":                                    "202607.06.0",
		"/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/galleries/g/images/i/Versions/202509.21.0": "202509.21.0",
		"/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/images/mine":                               "",
	} {
		if got := imageVersion(id); got != want {
			t.Errorf("%s: got version %q, want %q", id, got, want)
		}
	}
}

func TestGPUKind(t *testing.T) {
	for name, want := range map[string]bootstrap.GPUKind{"A10": bootstrap.Grid, "RTXPRO6000-BSE": bootstrap.GridV20, "A100": bootstrap.Compute, "H100": bootstrap.Compute} {
		if got := gpuKind(vmsize.GPU{Manufacturer: vmsize.NVIDIA, Name: name}); got != want {
			t.Errorf("%s: got driver %q, want %q", name, got, want)
		}
	}
}
