// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/azureemulator"
)

// aksProfile is what AKS was told of a machine, as its client wrote it.
const aksProfile = `{
	"kubernetes": {
		"orchestratorVersion": "1.34.2", "maxPods": 40, "nodeLabels": {"team": "a", "kubernetes.azure.com/role": "other"},
		"nodeInitializationTaints": ["karpenter.sh/unregistered=:NoExecute"], "nodeTaints": ["team=a:NoSchedule"],
		"kubeletConfig": {"cpuManagerPolicy": "static", "cpuCfsQuotaPeriod": "50ms", "failSwapOn": false, "containerLogMaxSizeMB": 20}
	},
	"operatingSystem": {"osSKU": "AzureLinux", "osDiskSizeGB": 256, "linuxProfile": {"linuxOSConfig": {
		"swapFileSizeMB": 512, "sysctls": {"netCoreSomaxconn": 16777216, "netIpv4TcpTwReuse": true, "vmMaxMapCount": 262144}
	}}},
	"hardware": {"gpuProfile": {"driver": "None"}}, "mode": "System"
}`

func aksMachine(t *testing.T, profile string) azureemulator.VM {
	t.Helper()
	m := testVM(nil)
	m.Node = &azureemulator.NodeProfile{Pool: "machines", Cluster: "MC_demo"}
	if err := json.Unmarshal([]byte(profile), m.Node); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNodeOfAKSMachine(t *testing.T) {
	m := aksMachine(t, aksProfile)
	c := Cluster{Server: "https://demo-dns-1234.hcp.eastus.azmk8s.io:443", CA: testAuthority(t), Token: goodToken}
	p, err := c.bootstrap(m)
	if err != nil {
		t.Fatal(err)
	}
	g := guest{os: NewOS(Options{}), vm: m}
	n := newNode(m, p, g.diskGiB(), time.Unix(0, 0))
	const domain = "kubernetes.azure.com/"
	for key, want := range map[string]string{
		"team": "a", domain + "role": "agent", domain + "agentpool": "machines", domain + "cluster": "MC_demo",
		domain + "mode": "system", domain + "os-sku": "AzureLinux", domain + "scalesetpriority": "spot",
	} {
		if n.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, n.Labels[key], want)
		}
	}
	if diff := cmp.Diff([]corev1.Taint{
		{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
		{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
		{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule},
	}, n.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if n.Spec.ProviderID != "" || p.Server != "demo-dns-1234.hcp.eastus.azmk8s.io:443" || n.Status.NodeInfo.KubeletVersion != "v1.34.2" {
		t.Errorf("provider id %q, server %q, kubelet %s", n.Spec.ProviderID, p.Server, n.Status.NodeInfo.KubeletVersion)
	}
	reserved := p.Kubelet.Reserved[corev1.ResourceMemory]
	if got := n.Status.Capacity; got.Pods().Value() != 40 || reserved.String() != "850Mi" || got.StorageEphemeral().Value() < 250<<30-gibibyte*3 {
		t.Errorf("capacity %v, reserved %v", got, p.Kubelet.Reserved)
	}
	if gpu := n.Status.Capacity[resourceNVIDIA]; !gpu.IsZero() {
		t.Error("the GPU shows without its driver")
	}
	want := map[string]string{"net.core.somaxconn": "16777216", "net.ipv4.tcp_tw_reuse": "1", "vm.max_map_count": "262144"}
	if diff := cmp.Diff(System{Sysctls: want, SwapMiB: 512}, p.System); diff != "" {
		t.Errorf("system (-want +got):\n%s", diff)
	}
}

// What a kubelet refuses, AKS's bootstrap cannot make it take.
func TestAKSMachinesThatNeverJoin(t *testing.T) {
	c := Cluster{Server: "https://demo-dns-1234.hcp.eastus.azmk8s.io:443", CA: testAuthority(t), Token: goodToken}
	for name, test := range map[string]struct {
		cluster Cluster
		profile string
		want    string
	}{
		"nowhere to join": {Cluster{}, aksProfile, "was not told of a cluster"},
		"forbidden label": {c, strings.Replace(aksProfile, `"team": "a"`, `"node-role.kubernetes.io/x": "a"`, 1), "may not give itself"},
		"broken taint":    {c, strings.Replace(aksProfile, "team=a:NoSchedule", "team=a:Sometimes", 1), "unsupported effect"},
		"swap refused":    {c, strings.Replace(aksProfile, `"failSwapOn": false`, `"failSwapOn": true`, 1), "the VM has swap"},
		"no version":      {c, strings.Replace(aksProfile, "1.34.2", "", 1), "no kubelet has that version"},
	} {
		if _, err := test.cluster.bootstrap(aksMachine(t, test.profile)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Before Kubernetes 1.29 AKS kept memory by a table.
func TestReservationsOfAKS(t *testing.T) {
	for _, test := range []struct {
		cores, pods         int64
		memory              float64
		version             int
		cpu, kept, eviction int64
	}{
		{2, 110, 7, 28, 100, 1638, 750}, {4, 110, 64, 28, 140, 5611, 750}, {2, 110, 8, 30, 100, 2048, 100}, {8, 30, 64, 34, 180, 650, 100},
	} {
		if cpu, kept, eviction := aksReservation(test.cores, test.memory, test.pods, test.version); cpu != test.cpu || kept != test.kept || eviction != test.eviction {
			t.Errorf("%+v: %d, %d, %d", test, cpu, kept, eviction)
		}
	}
}
