// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func to[T any](v T) *T { return &v }

func duration(d time.Duration) v1beta1.NillableDuration {
	return v1beta1.NillableDuration{Duration: &d}
}

func zone(name string, destination v1beta1.LocalDNSForwardDestination) v1beta1.LocalDNSZoneOverride {
	return v1beta1.LocalDNSZoneOverride{
		Zone: name, QueryLogging: v1beta1.LocalDNSQueryLoggingError, Protocol: v1beta1.LocalDNSProtocolPreferUDP,
		ForwardDestination: destination, ForwardPolicy: v1beta1.LocalDNSForwardPolicySequential, MaxConcurrent: to(int32(1000)),
		CacheDuration: duration(time.Hour), ServeStaleDuration: duration(30 * time.Minute), ServeStale: v1beta1.LocalDNSServeStaleImmediate,
	}
}

func localDNS() *v1beta1.LocalDNS {
	const vnet, cluster = v1beta1.LocalDNSForwardDestinationVnetDNS, v1beta1.LocalDNSForwardDestinationClusterCoreDNS
	return &v1beta1.LocalDNS{
		Mode:             v1beta1.LocalDNSModeRequired,
		VnetDNSOverrides: []v1beta1.LocalDNSZoneOverride{zone("cluster.local", cluster), zone(".", vnet)},
		KubeDNSOverrides: []v1beta1.LocalDNSZoneOverride{zone(".", cluster), zone("cluster.local", cluster), zone("corp.example", vnet)},
	}
}

// linuxOS returns a configuration with every setting of a class.
func linuxOS() *v1beta1.LinuxOSConfiguration {
	n := int32(100000)
	next := func() *int32 { n++; return to(n) }
	return &v1beta1.LinuxOSConfiguration{
		SwapFileSize: to("1500Mi"), TransparentHugePageEnabled: to(v1beta1.TransparentHugePageEnabledMadvise),
		TransparentHugePageDefrag: to(v1beta1.TransparentHugePageDefragDeferMadvise),
		Sysctls: &v1beta1.SysctlConfiguration{
			FsAioMaxNr: next(), FsFileMax: next(), FsInotifyMaxUserWatches: next(), FsNrOpen: next(), KernelThreadsMax: next(), NetCoreNetdevMaxBacklog: next(),
			NetCoreOptmemMax: next(), NetCoreRmemDefault: next(), NetCoreRmemMax: next(), NetCoreSomaxconn: next(), NetCoreWmemDefault: next(),
			NetCoreWmemMax: next(), NetIPv4IPLocalPortRange: to("1024 65500"), NetIPv4NeighDefaultGcThresh1: next(), NetIPv4NeighDefaultGcThresh2: next(),
			NetIPv4NeighDefaultGcThresh3: next(), NetIPv4TCPFinTimeout: next(), NetIPv4TCPKeepaliveProbes: next(), NetIPv4TCPKeepaliveTime: next(),
			NetIPv4TCPKeepaliveIntvl: next(), NetIPv4TCPMaxSynBacklog: next(), NetIPv4TCPMaxTwBuckets: next(), NetIPv4TCPTwReuse: to(true),
			NetNetfilterNfConntrackBuckets: next(), NetNetfilterNfConntrackMax: next(), VMMaxMapCount: next(), VMSwappiness: next(), VMVfsCachePressure: next(),
		},
	}
}

// testNode returns a node with every field set.
func testNode() bootstrap.NodeConfig {
	return bootstrap.NodeConfig{
		Server: "karve.example", CA: []byte(azureemulator.IdleAuthority), Token: "abcdef.0123456789abcdef", Version: "1.36.3",
		Labels: map[string]string{"example.com/team": "a", "karpenter.sh/nodepool": "web", "node.kubernetes.io/pool": "p", "empty": ""},
		Taints: []provider.Taint{
			{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}, {Key: "b", Value: "v", Effect: "NoSchedule"},
			{Key: "a", Effect: "NoExecute"}, {Key: "a", Effect: "NoExecute"},
		},
		MaxPods: 110, Overhead: bootstrap.Overhead{MilliCPU: 140, MemoryMiB: 2250, EvictionMiB: 100},
		Kubelet: &v1beta1.KubeletConfiguration{
			CPUManagerPolicy: to(v1beta1.CPUManagerPolicyStatic), TopologyManagerPolicy: to(v1beta1.TopologyManagerPolicySingleNUMANode),
			CPUCFSQuota: to(true), CPUCFSQuotaPeriod: &metav1.Duration{Duration: 50 * time.Millisecond}, ImageGCHighThresholdPercent: to(int32(90)),
			ContainerLogMaxSize: to("64Mi"), ContainerLogMaxFiles: to(int32(3)), PodPidsLimit: to(int64(500)), FailSwapOn: to(false),
			AllowedUnsafeSysctls: []string{"net.core.somaxconn", "kernel.msg*"},
		},
		OS: linuxOS(), LocalDNS: localDNS(), DNS: "10.0.0.10",
		Size: "Standard_ND96asr_v4", Arch: "amd64", GPU: bootstrap.GPU{Install: true}, ImageVersion: "202607.20.0", StreamArtifacts: true,
		Subscription: "0b1f6471-1bf0-4dda-aec3-cb9272f09590", Tenant: "t", ResourceGroup: "MC_rg_prod_eastus", Location: "eastus",
		Network: bootstrap.Network{
			VNet: "aks-vnet-12345678", VNetResourceGroup: "MC_rg_prod_eastus", Subnet: "aks-subnet", Plugin: "none", Policy: "cilium",
			SecurityGroup: "aks-agentpool-12345678-nsg", RouteTable: "aks-agentpool-12345678-routetable",
		},
		Identity: "7a1f6471-1bf0-4dda-aec3-cb9272f09590", Admin: "azureuser",
	}
}

// minors are the minor versions of Kubernetes at which kubelet flags are added or removed.
var minors = []string{"1.28.5", "1.30.1", "1.33.0", "1.34.2", "1.35.1", "1.36.3"}

var contracts = []bootstrap.Contract{bootstrap.Environment, bootstrap.Structured}

func encode(t testing.TB, n bootstrap.NodeConfig, c bootstrap.Contract) []byte {
	t.Helper()
	data, err := bootstrap.Encode(n, c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Rule BOOTSTRAP-3.
func TestGolden(t *testing.T) {
	for _, c := range contracts {
		for _, version := range minors {
			n := testNode()
			n.Version = version
			got := encode(t, n, c)
			for range 5 {
				if again := encode(t, n, c); !bytes.Equal(got, again) {
					t.Fatal("the same node gave two payloads")
				}
			}
			minor := strings.Split(version, ".")[1]
			compare(t, fmt.Sprintf("testdata/%s-1.%s.txt", c, minor), readable(t, got))
		}
	}
}

// readable returns a payload with the document of the structured contract decoded and indented.
func readable(t *testing.T, payload []byte) []byte {
	t.Helper()
	before, rest, found := strings.Cut(string(payload), "<<'EOF'\n")
	encoded, after, ended := strings.Cut(rest, "EOF\n")
	if !found || !ended {
		return payload
	}
	document, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(encoded, "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	var spread bytes.Buffer
	if err := json.Indent(&spread, document, "", "  "); err != nil {
		t.Fatal(err)
	}
	return []byte(strings.ReplaceAll(before+"<<'EOF'\n"+spread.String()+"\nEOF\n"+after, "\r\n", "\n"))
}

func compare(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s changed; look at the difference, then run with -rewrite (-want +got):\n%s", golden, diff)
	}
}

// The emulator's node reads payloads with a real shell, the node controller's types and the
// kubelet's own flag table. The result must equal the settings of the Node.
//
// Rule BOOTSTRAP-3.
func TestPayloadIsReadAsMeant(t *testing.T) {
	for _, c := range contracts {
		for _, version := range minors {
			n := testNode()
			n.Version = version
			p, err := node.ReadPayload(t.Context(), encode(t, n, c))
			if err != nil {
				t.Fatalf("%s: a node of %s would never join: %v", c, version, err)
			}
			if p.Server != n.Server+":443" || p.Token != n.Token || p.KubernetesVersion != version || !p.GPUDriver || string(p.CA) != azureemulator.IdleAuthority {
				t.Errorf("%s %s: read as %s, %s, GPU driver %v", c, version, p.Server, p.KubernetesVersion, p.GPUDriver)
			}
			if diff := cmp.Diff(n.Labels, p.Kubelet.Labels); diff != "" {
				t.Errorf("%s %s: labels (-want +got):\n%s", c, version, diff)
			}
			if len(p.Kubelet.Taints) != 3 || p.Kubelet.MaxPods != 110 {
				t.Errorf("%s %s: taints %v, max pods %d", c, version, p.Kubelet.Taints, p.Kubelet.MaxPods)
			}
		}
	}
}

// A cluster on long-term support has a version with a suffix, and its kubelets have the same one.
//
// Rule BOOTSTRAP-3.
func TestLongTermSupport(t *testing.T) {
	for _, c := range contracts {
		n := testNode()
		n.Version = "1.30.101-akslts"
		p, err := node.ReadPayload(t.Context(), encode(t, n, c))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if p.KubernetesVersion != n.Version {
			t.Errorf("%s: the kubelet is of %s, want %s", c, p.KubernetesVersion, n.Version)
		}
	}
}

// When a class sets one threshold of image collection beyond the default of the other, its nodes
// start all the same: the emulator's kubelet rejects thresholds as the real one does.
//
// Rule BOOTSTRAP-6.
func TestOneImageThresholdAlone(t *testing.T) {
	for _, x := range []struct{ high, low, wantHigh, wantLow *int32 }{
		{nil, nil, nil, nil},
		{to(int32(90)), nil, to(int32(90)), nil},
		{to(int32(80)), nil, to(int32(80)), to(int32(75))},
		{to(int32(3)), nil, to(int32(3)), to(int32(0))},
		{nil, to(int32(60)), nil, to(int32(60))},
		{nil, to(int32(85)), to(int32(90)), to(int32(85))},
		{nil, to(int32(98)), to(int32(100)), to(int32(98))},
		{to(int32(70)), to(int32(60)), to(int32(70)), to(int32(60))},
	} {
		n := testNode()
		n.Kubelet.ImageGCHighThresholdPercent, n.Kubelet.ImageGCLowThresholdPercent = x.high, x.low
		high, low := bootstrap.ImageGC(n.Kubelet)
		if diff := cmp.Diff([]*int32{x.wantHigh, x.wantLow}, []*int32{high, low}); diff != "" {
			t.Errorf("thresholds (-want +got):\n%s", diff)
		}
		for _, c := range contracts {
			if _, err := node.ReadPayload(t.Context(), encode(t, n, c)); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
	}
}

// Every setting of the operating system in a class reaches the VM.
//
// Rule BOOTSTRAP-5.
func TestSystemSettings(t *testing.T) {
	for _, c := range contracts {
		p, err := node.ReadPayload(t.Context(), encode(t, testNode(), c))
		if err != nil {
			t.Fatal(err)
		}
		s := p.System
		if s.SwapMiB != 1500 || s.HugePages != "madvise" || s.HugePageDefrag != "defer+madvise" {
			t.Errorf("%s: swap %d MiB, huge pages %s, %s", c, s.SwapMiB, s.HugePages, s.HugePageDefrag)
		}
		for name, want := range map[string]string{
			"fs.aio-max-nr": "100001", "net.core.somaxconn": "100010", "net.ipv4.ip_local_port_range": "1024 65500", "net.ipv4.tcp_tw_reuse": "1",
			"net.ipv4.ip_local_reserved_ports": "65330", "net.core.message_cost": "40", "vm.vfs_cache_pressure": "100026",
		} {
			if s.Sysctls[name] != want {
				t.Errorf("%s: %s is %q, want %s", c, name, s.Sysctls[name], want)
			}
		}
		// 28 of the user, three that users cannot set, and the reserved port.
		if len(s.Sysctls) != 28+3+1 {
			t.Errorf("%s: %d kernel settings: %v", c, len(s.Sysctls), s.Sysctls)
		}
		if pods := p.Kubelet.DNS; len(pods) != 1 || pods[0] != "169.254.10.11" {
			t.Errorf("%s: pods ask %v, and not the DNS cache", c, pods)
		}
		if !strings.Contains(s.DNSCache, "corp.example:53 {") {
			t.Errorf("%s: the DNS cache does not know the class's zone:\n%s", c, s.DNSCache)
		}
		plain := testNode()
		plain.OS, plain.LocalDNS = nil, nil
		if p, err = node.ReadPayload(t.Context(), encode(t, plain, c)); err != nil || p.System.SwapMiB != 0 || p.System.DNSCache != "" || p.Kubelet.DNS[0] != "10.0.0.10" || len(p.System.Sysctls) != 8 {
			t.Errorf("%s: a class that sets nothing gave %+v, %v", c, p.System, err)
		}
	}
}

// Rule BOOTSTRAP-8.
func TestCorefile(t *testing.T) {
	p, err := node.ReadPayload(t.Context(), encode(t, testNode(), bootstrap.Environment))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "testdata/corefile.txt", []byte(p.System.DNSCache))
}

// leftToTheImage are the variables that the image sets by itself when it gets the document, and
// those that only the script sets.
var leftToTheImage = []string{
	"CONTAINERD_CONFIG_CONTENT", "CONTAINERD_CONFIG_NO_GPU_CONTENT", "GPU_DRIVER_TYPE", "GPU_DRIVER_VERSION", "GPU_IMAGE_SHA",
	"LOCALDNS_COREFILE_BASE", "LOCALDNS_GENERATED_COREFILE", "BLOCK_OUTBOUND_NETWORK", "MCR_REPOSITORY_BASE",
}

// Both contracts are equivalent: the image derives from the document the variables that the
// script exports.
//
// Rule BOOTSTRAP-3.
func TestContractsAgree(t *testing.T) {
	for name, change := range map[string]func(*bootstrap.NodeConfig){
		"everything": func(*bootstrap.NodeConfig) {},
		"nothing": func(n *bootstrap.NodeConfig) {
			n.Labels, n.Taints, n.Kubelet, n.OS, n.LocalDNS, n.GPU = nil, nil, nil, nil, nil, bootstrap.GPU{}
			n.Tenant, n.Identity, n.StreamArtifacts, n.Network.SecurityGroup, n.Network.RouteTable, n.Network.Policy = "", "", false, "", "", ""
		},
		"old Kubernetes":  func(n *bootstrap.NodeConfig) { n.Version = "1.31.4"; n.Arch, n.Size = "arm64", "Standard_D4ps_v5" },
		"node subnet":     func(n *bootstrap.NodeConfig) { n.Network.Plugin, n.Network.Policy = "azure", "calico" },
		"both families":   func(n *bootstrap.NodeConfig) { n.Network.DualStack = true },
		"China":           func(n *bootstrap.NodeConfig) { n.Location = "chinanorth3" },
		"US government":   func(n *bootstrap.NodeConfig) { n.Location = "usgovvirginia" },
		"custom cloud":    func(n *bootstrap.NodeConfig) { n.Cloud = customCloud() },
		"driver of users": func(n *bootstrap.NodeConfig) { n.GPU.Install = false },
	} {
		n := testNode()
		change(&n)
		script, err := node.Environment(t.Context(), encode(t, n, bootstrap.Environment), n.ImageVersion)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		document, err := node.Environment(t.Context(), encode(t, n, bootstrap.Structured), n.ImageVersion)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		delete(script, "PATH")
		delete(script, "HOME")
		for key := range script {
			left := slices.Contains(leftToTheImage, key) || key == "ARM_RESOURCE_ENDPOINT" && n.Cloud.Custom()
			if got := document[key]; got != script[key] && !left {
				t.Errorf("%s: %s: the script says %q, the document means %q", name, key, script[key], got)
			}
		}
		for key, value := range document {
			if _, ok := script[key]; !ok && value != "" {
				t.Errorf("%s: %s: the document means %q, the script says nothing", name, key, value)
			}
		}
	}
}

func customCloud() bootstrap.Cloud {
	return bootstrap.Cloud{
		Environment: []byte(`{"name":"akscustom","resourceManagerEndpoint":"https://management.private.example/"}`), RegistrySuffix: "azurecr.private.example",
	}
}

// Every variable that an image's scripts read is exported, even an empty one.
//
// Rule BOOTSTRAP-3.
func TestEveryVariableIsExported(t *testing.T) {
	names, err := os.ReadFile("names.txt")
	if err != nil {
		t.Fatal(err)
	}
	env, err := node.Environment(t.Context(), encode(t, testNode(), bootstrap.Environment), "")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(names)) {
		name := strings.TrimSpace(line)
		if strings.HasPrefix(name, "#") {
			continue
		}
		count++
		if _, ok := env[name]; !ok {
			t.Errorf("%s is not exported", name)
		}
		delete(env, name)
	}
	delete(env, "PATH")
	delete(env, "HOME")
	if len(env) > 0 || count < 150 {
		t.Errorf("of %d names, these are exported and no script reads them: %v", count, env)
	}
}

// Rule BOOTSTRAP-2.
func TestContractFollowsTheImage(t *testing.T) {
	for _, test := range []struct {
		asked   bootstrap.Contract
		version string
		want    bootstrap.Contract
	}{
		{bootstrap.Auto, "202511.02.0", bootstrap.Environment},
		{bootstrap.Auto, "202606.30.9", bootstrap.Environment},
		{bootstrap.Auto, "202607.01.0", bootstrap.Structured},
		{"", "202701.10.0", bootstrap.Structured},
		{bootstrap.Auto, "", bootstrap.Environment},
		{bootstrap.Auto, "1.2.3", bootstrap.Environment},
		{bootstrap.Structured, "202511.02.0", bootstrap.Structured},
		{bootstrap.Environment, "202701.10.0", bootstrap.Environment},
	} {
		if got := test.asked.For(test.version); got != test.want {
			t.Errorf("%q of image %q: got %s, want %s", test.asked, test.version, got, test.want)
		}
	}
	if _, err := bootstrap.ParseContract("scripted"); err == nil {
		t.Error("an unknown contract was accepted")
	}
	if _, err := bootstrap.Encode(testNode(), bootstrap.Auto); err == nil {
		t.Error("auto was encoded: it is no contract")
	}
}

// An image has one driver per kind; the script must request that one.
//
// Rule BOOTSTRAP-9.
func TestDriverIsTheImages(t *testing.T) {
	for _, test := range []struct {
		version      string
		kind         bootstrap.GPUKind
		want, driver string
	}{
		{"202509.21.0", bootstrap.CUDA, "cuda", "570.172.08"},
		{"202602.10.0", bootstrap.CUDA, "cuda", "580.126.09"},
		{"202607.06.0", bootstrap.CUDA, "cuda-lts", "580.159.04"},
		{"", bootstrap.CUDA, "cuda-lts", "580.159.04"},
		{"202509.21.0", bootstrap.Grid, "grid", "550.144.06"},
		{"202606.01.0", bootstrap.Grid, "grid", "570.211.01"},
		{"202606.21.0", bootstrap.GridV20, "grid-v20", "595.58.03"},
	} {
		n := testNode()
		n.ImageVersion, n.GPU.Kind = test.version, test.kind
		env, err := node.Environment(t.Context(), encode(t, n, bootstrap.Environment), test.version)
		if err != nil {
			t.Fatal(err)
		}
		if env["GPU_DRIVER_TYPE"] != test.want || env["GPU_DRIVER_VERSION"] != test.driver || len(env["GPU_IMAGE_SHA"]) != 14 {
			t.Errorf("%s %q: got driver %s %s-%s, want %s %s", test.version, test.kind, env["GPU_DRIVER_TYPE"], env["GPU_DRIVER_VERSION"], env["GPU_IMAGE_SHA"], test.want, test.driver)
		}
		if env["GPU_NEEDS_FABRIC_MANAGER"] != "true" {
			t.Errorf("%s has a fabric manager", n.Size)
		}
	}
	n := testNode()
	n.ImageVersion, n.GPU.Kind = "202509.21.0", bootstrap.GridV20
	if _, err := bootstrap.Encode(n, bootstrap.Environment); err == nil {
		t.Error("an image without the driver was given a VM that needs it")
	}
}

// Images determine sovereign clouds by their location; custom ones are described in the payload.
//
// Rule BOOTSTRAP-11.
func TestClouds(t *testing.T) {
	for _, test := range []struct {
		location, target, manager, pause string
		cloud                            bootstrap.Cloud
	}{
		{"eastus", "AzurePublicCloud", "https://management.azure.com/", "mcr.microsoft.com/oss/kubernetes/pause:3.6", bootstrap.Cloud{}},
		{"chinaeast2", "AzureChinaCloud", "https://management.chinacloudapi.cn/", "mcr.azure.cn/oss/kubernetes/pause:3.6", bootstrap.Cloud{}},
		{"usdodeast", "AzureUSGovernmentCloud", "https://management.usgovcloudapi.net/", "mcr.microsoft.com/oss/kubernetes/pause:3.6", bootstrap.Cloud{}},
		{"local", "AzureStackCloud", "https://management.private.example/", "mcr.microsoft.com/oss/kubernetes/pause:3.6", customCloud()},
	} {
		n := testNode()
		n.Location, n.Cloud = test.location, test.cloud
		env, err := node.Environment(t.Context(), encode(t, n, bootstrap.Environment), "")
		if err != nil {
			t.Fatal(err)
		}
		if env["TARGET_CLOUD"] != test.target || env["ARM_RESOURCE_ENDPOINT"] != test.manager {
			t.Errorf("%s: got %s at %s", test.location, env["TARGET_CLOUD"], env["ARM_RESOURCE_ENDPOINT"])
		}
		config, err := base64.StdEncoding.DecodeString(env["CONTAINERD_CONFIG_CONTENT"])
		if err != nil || !strings.Contains(string(config), `sandbox_image = "`+test.pause+`"`) {
			t.Errorf("%s: containerd has not %s: %v\n%s", test.location, test.pause, err, config)
		}
	}
}

// A value that the image, its scripts or the kubelet would fail on is an error before a VM is
// launched.
//
// Rule BOOTSTRAP-6.
func TestNonsenseIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*bootstrap.NodeConfig){
		"label value with a comma": func(n *bootstrap.NodeConfig) { n.Labels["x"] = "a,b=c" },
		"label key":                func(n *bootstrap.NodeConfig) { n.Labels["not a key"] = "v" },
		"taint effect": func(n *bootstrap.NodeConfig) {
			n.Taints = append(n.Taints, provider.Taint{Key: "x", Effect: "Sometimes"})
		},
		"taint value": func(n *bootstrap.NodeConfig) {
			n.Taints = append(n.Taints, provider.Taint{Key: "x", Value: "a b", Effect: "NoSchedule"})
		},
		"flag with white space":  func(n *bootstrap.NodeConfig) { n.Kubelet.AllowedUnsafeSysctls = []string{"a b"} },
		"flag with a quote":      func(n *bootstrap.NodeConfig) { n.Kubelet.ContainerLogMaxSize = to(`1"Mi`) },
		"server with a path":     func(n *bootstrap.NodeConfig) { n.Server = "karve.example/x" },
		"server with a new line": func(n *bootstrap.NodeConfig) { n.Server = "karve.example\nx: y" },
		"no authority":           func(n *bootstrap.NodeConfig) { n.CA = []byte("hello") },
		"no token":               func(n *bootstrap.NodeConfig) { n.Token = "" },
		"version":                func(n *bootstrap.NodeConfig) { n.Version = "1.36" },
		"group that ends JSON":   func(n *bootstrap.NodeConfig) { n.ResourceGroup = `rg","x":"` },
		"subnet that runs":       func(n *bootstrap.NodeConfig) { n.Network.Subnet = "$(reboot)" },
		"no network":             func(n *bootstrap.NodeConfig) { n.Network.VNet = "" },
		"DNS":                    func(n *bootstrap.NodeConfig) { n.DNS = "ten" },
		"architecture":           func(n *bootstrap.NodeConfig) { n.Arch = "sparc" },
		"plugin":                 func(n *bootstrap.NodeConfig) { n.Network.Plugin = "kubenet" },
		"pods":                   func(n *bootstrap.NodeConfig) { n.MaxPods = 0 },
		"ports":                  func(n *bootstrap.NodeConfig) { n.OS.Sysctls.NetIPv4IPLocalPortRange = to("1024 65500\nkernel.panic=1") },
		"swap":                   func(n *bootstrap.NodeConfig) { n.OS.SwapFileSize = to("much") },
		"swap of nothing":        func(n *bootstrap.NodeConfig) { n.OS.SwapFileSize = to("1Ki") },
		"huge pages": func(n *bootstrap.NodeConfig) {
			n.OS.TransparentHugePageEnabled = to(v1beta1.TransparentHugePageEnabled("often"))
		},
		"zone that ends a block": func(n *bootstrap.NodeConfig) { n.LocalDNS.KubeDNSOverrides[2].Zone = "a:53 { erratic }\n." },
		"zone twice":             func(n *bootstrap.NodeConfig) { n.LocalDNS.KubeDNSOverrides[2].Zone = "." },
		"no root zone":           func(n *bootstrap.NodeConfig) { n.LocalDNS.KubeDNSOverrides = n.LocalDNS.KubeDNSOverrides[1:] },
		"cache without time": func(n *bootstrap.NodeConfig) {
			n.LocalDNS.KubeDNSOverrides[0].CacheDuration = v1beta1.NillableDuration{}
		},
		"cloud without a manager": func(n *bootstrap.NodeConfig) { n.Cloud.Environment = []byte("{}") },
	} {
		for _, c := range contracts {
			n := testNode()
			spoil(&n)
			if data, err := bootstrap.Encode(n, c); err == nil || data != nil {
				t.Errorf("%s: %s: accepted", c, name)
			} else if strings.Contains(err.Error(), "0123456789abcdef") {
				t.Errorf("%s: %s: the error shows the token: %v", c, name, err)
			}
		}
	}
}

// Rule BOOTSTRAP-12.
func TestTooLarge(t *testing.T) {
	for _, c := range contracts {
		n := testNode()
		for i := range 3000 {
			n.Labels[fmt.Sprintf("example.com/label-%d", i)] = "a-value-of-some-length"
		}
		if _, err := bootstrap.Encode(n, c); !errors.Is(err, bootstrap.ErrTooLarge) {
			t.Errorf("%s: got %v: want a refusal", c, err)
		}
	}
}

// For any value, either Encode returns an error, or the VM reads exactly that value and all other
// settings are unchanged.
//
// Rule BOOTSTRAP-6.
func FuzzValuesCannotBreakOut(f *testing.F) {
	for _, value := range []string{
		"plain", "'", `'; reboot; '`, "$(reboot)", "`reboot`", "a\nEOF\nreboot", "é", `","x":"`, "\x00", "--==karve=bootstrap==--", "a b", "%s", "\\",
	} {
		for which := range uint8(8) {
			f.Add(which, value)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		n := testNode()
		read := func(p node.Payload) string { return "" }
		switch which % 8 {
		case 0:
			n.Labels["example.com/fuzz"] = value
			read = func(p node.Payload) string { return p.Kubelet.Labels["example.com/fuzz"] }
		case 1:
			n.Labels[value] = "x"
			read = func(p node.Payload) string { return map[string]string{"x": value}[p.Kubelet.Labels[value]] }
		case 2:
			n.Taints = []provider.Taint{{Key: "fuzz", Value: value, Effect: "NoSchedule"}}
			read = func(p node.Payload) string { return p.Kubelet.Taints[0].Value }
		case 3:
			n.Token = value
			read = func(p node.Payload) string { return p.Token }
		case 4:
			n.OS.Sysctls.NetIPv4IPLocalPortRange = &value
			read = func(p node.Payload) string { return p.System.Sysctls["net.ipv4.ip_local_port_range"] }
		case 5:
			n.Server = value
			read = func(p node.Payload) string { return strings.TrimSuffix(p.Server, ":443") }
		case 6:
			n.Network.Subnet = value
			read = func(node.Payload) string { return value }
		case 7:
			n.LocalDNS.VnetDNSOverrides = append(n.LocalDNS.VnetDNSOverrides, zone(value, v1beta1.LocalDNSForwardDestinationVnetDNS))
			read = func(node.Payload) string { return value }
		}
		for _, c := range contracts {
			data, err := bootstrap.Encode(n, c)
			if err != nil {
				continue
			}
			p, err := node.ReadPayload(t.Context(), data)
			if err != nil {
				t.Fatalf("%s, field %d: %q was encoded, and the VM would never join: %v", c, which%8, value, err)
			}
			if got := read(p); got != value || p.Kubelet.MaxPods != n.MaxPods {
				t.Fatalf("%s, field %d: %q was read as %q", c, which%8, value, got)
			}
		}
	})
}
