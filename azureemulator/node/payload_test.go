// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/catalog"
)

// testAuthority is a certificate authority nobody signs anything with.
func testAuthority(t testing.TB) []byte {
	t.Helper()
	var key *ecdsa.PrivateKey
	return testAuthorityWithKey(t, &key)
}

func testAuthorityWithKey(t testing.TB, keep **ecdsa.PrivateKey) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	*keep = key
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// goodFlags are what AKS gives a kubelet in this mode.
const goodFlags = "--address=0.0.0.0 --anonymous-auth=false --authentication-token-webhook=true --authorization-mode=Webhook " +
	"--client-ca-file=/etc/kubernetes/certs/ca.crt --cloud-provider=external --cluster-dns=10.0.0.10 --cluster-domain=cluster.local " +
	"--enforce-node-allocatable=pods --event-qps=0 --eviction-hard=memory.available<750Mi --image-gc-high-threshold=85 " +
	"--image-gc-low-threshold=80 --kube-reserved=cpu=140m,memory=1843Mi --max-pods=110 --node-status-update-frequency=10s " +
	"--pod-max-pids=-1 --protect-kernel-defaults=true --read-only-port=0 --resolv-conf=/run/systemd/resolve/resolv.conf " +
	"--rotate-certificates=true --streaming-connection-idle-timeout=4h --tls-cert-file=/etc/kubernetes/certs/kubeletserver.crt " +
	"--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 " +
	"--tls-private-key-file=/etc/kubernetes/certs/kubeletserver.key " +
	"--register-with-taints=karpenter.sh/unregistered:NoExecute,team=a:NoSchedule"

// goodEnvironment is what a payload that works provides.
func goodEnvironment(ca []byte) map[string]string {
	return map[string]string{
		"API_SERVER_NAME":             "demo-dns-1234.hcp.eastus.azmk8s.io",
		"KUBE_CA_CRT":                 base64.StdEncoding.EncodeToString(ca),
		"TLS_BOOTSTRAP_TOKEN":         "abcdef.0123456789abcdef",
		"KUBERNETES_VERSION":          "1.36.3",
		"KUBELET_NODE_LABELS":         "karpenter.sh/nodepool=default,kubernetes.azure.com/role=agent",
		"KUBELET_FLAGS":               goodFlags,
		"GPU_NODE":                    "true",
		"CONFIG_GPU_DRIVER_IF_NEEDED": "true",
	}
}

// script writes an environment as AgentBaker does: assignments in front of the
// provisioning command, on one line.
func script(env map[string]string) []byte {
	var b strings.Builder
	b.WriteString("#!/bin/bash\nPROVISION_OUTPUT=\"/var/log/azure/cluster-provision-cse-output.log\"; echo $(date),$(hostname) > ${PROVISION_OUTPUT}; ")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString(name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(env[name]) + `" `)
	}
	b.WriteString(provision + "\n")
	return []byte(b.String())
}

func TestReadPayload(t *testing.T) {
	ca := testAuthority(t)
	got, err := ReadPayload(t.Context(), script(goodEnvironment(ca)))
	if err != nil {
		t.Fatal(err)
	}
	want := Payload{
		Server:            "demo-dns-1234.hcp.eastus.azmk8s.io:443",
		CA:                ca,
		Token:             "abcdef.0123456789abcdef",
		KubernetesVersion: "1.36.3",
		GPUDriver:         true,
		Kubelet: KubeletConfig{
			Labels: map[string]string{"karpenter.sh/nodepool": "default", "kubernetes.azure.com/role": "agent"},
			Taints: []corev1.Taint{
				{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
				{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
			},
			External:    true,
			DNS:         []string{"10.0.0.10"},
			MaxPods:     110,
			Register:    true,
			FailsOnSwap: true,
			Reserved:    corev1.ResourceList{"cpu": resource.MustParse("140m"), "memory": resource.MustParse("1843Mi")},
			Eviction:    []Threshold{{Signal: "memory.available", Amount: resource.MustParse("750Mi")}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
}

func TestReadPayloadServer(t *testing.T) {
	ca := testAuthority(t)
	for name, want := range map[string]string{"host": "host:443", "10.0.0.4": "10.0.0.4:443"} {
		env := goodEnvironment(ca)
		env["API_SERVER_NAME"] = name
		p, err := ReadPayload(t.Context(), script(env))
		if err != nil || p.Server != want {
			t.Errorf("API_SERVER_NAME=%s: server %q, error %v; want %q", name, p.Server, err, want)
		}
	}
}

// A change of one variable in a payload that works, and why the node never joins.
func TestBrokenPayloads(t *testing.T) {
	ca := testAuthority(t)
	notACertificate := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))
	tests := map[string]struct{ variable, value, want string }{
		"no server":             {"API_SERVER_NAME", "", "API_SERVER_NAME"},
		"a URL as server":       {"API_SERVER_NAME", "https://host", "not a host name"},
		"a port of its own":     {"API_SERVER_NAME", "host:443", "appends :443 to it"},
		"an IPv6 address":       {"API_SERVER_NAME", "[fd00::1]", "not a host name"},
		"no CA":                 {"KUBE_CA_CRT", "", "KUBE_CA_CRT: it is missing"},
		"CA not base64":         {"KUBE_CA_CRT", "-----BEGIN", "not base64"},
		"CA without PEM":        {"KUBE_CA_CRT", "aGVsbG8=", "no PEM certificate"},
		"CA broken":             {"KUBE_CA_CRT", notACertificate, "broken certificate"},
		"no token":              {"TLS_BOOTSTRAP_TOKEN", "", "TLS_BOOTSTRAP_TOKEN is missing"},
		"no version":            {"KUBERNETES_VERSION", "", "no kubelet has that version"},
		"version":               {"KUBERNETES_VERSION", "latest", "no kubelet has that version"},
		"config file":           {"KUBELET_CONFIG_FILE_ENABLED", "true", "flags only"},
		"unknown flag":          {"KUBELET_FLAGS", "--max-podz=3", "unknown flag: --max-podz"},
		"removed flag":          {"KUBELET_FLAGS", "--cloud-config=/etc/azure.json", "unknown flag: --cloud-config"},
		"stray word":            {"KUBELET_FLAGS", "--max-pods 3 4", `unknown command "4"`},
		"quotes in flags":       {"KUBELET_FLAGS", `--max-pods="30"`, "invalid argument"},
		"not a number":          {"KUBELET_FLAGS", "--max-pods=many", "invalid argument"},
		"negative":              {"KUBELET_FLAGS", "--max-pods=-1", "--max-pods -1 must not be negative"},
		"not a duration":        {"KUBELET_FLAGS", "--node-status-update-frequency=10", "invalid argument"},
		"not a boolean":         {"KUBELET_FLAGS", "--rotate-certificates=yes", "invalid argument"},
		"not an address":        {"KUBELET_FLAGS", "--address=everywhere", "not a valid IP address"},
		"not a DNS address":     {"KUBELET_FLAGS", "--cluster-dns=kube-dns", "--cluster-dns"},
		"not a choice":          {"KUBELET_FLAGS", "--authorization-mode=Maybe", "must be one of"},
		"in-tree cloud":         {"KUBELET_FLAGS", "--cloud-provider=azure", "only external is left"},
		"image GC":              {"KUBELET_FLAGS", "--image-gc-low-threshold=90", "must be less than"},
		"quota period":          {"KUBELET_FLAGS", "--cpu-cfs-quota-period=2s", "between 1ms and 1s"},
		"allocatable":           {"KUBELET_FLAGS", "--enforce-node-allocatable=none,pods", "excludes everything else"},
		"reserving nonsense":    {"KUBELET_FLAGS", "--kube-reserved=gpu=1", "cannot reserve"},
		"reserving no quantity": {"KUBELET_FLAGS", "--kube-reserved=memory=1Gig", "no quantity"},
		"reserving debt":        {"KUBELET_FLAGS", "--system-reserved=cpu=-1", "no quantity"},
		"reserving no pair":     {"KUBELET_FLAGS", "--kube-reserved=memory", "malformed pair"},
		"eviction signal":       {"KUBELET_FLAGS", "--eviction-hard=memory<1Gi", "unknown signal"},
		"eviction operator":     {"KUBELET_FLAGS", "--eviction-hard=memory.available=1Gi", "malformed pair"},
		"eviction share":        {"KUBELET_FLAGS", "--eviction-hard=memory.available<110%", "outside 0% to 100%"},
		"eviction NaN":          {"KUBELET_FLAGS", "--eviction-hard=memory.available<nan%", "outside 0% to 100%"},
		"eviction quantity":     {"KUBELET_FLAGS", "--eviction-hard=memory.available<lots", "quantities must match"},
		"taint effect":          {"KUBELET_FLAGS", "--register-with-taints=a=b:NoWay", "unsupported effect"},
		"taint without effect":  {"KUBELET_FLAGS", "--register-with-taints=a=b", "unsupported effect"},
		"taint key":             {"KUBELET_FLAGS", "--register-with-taints=a/b/c=d:NoExecute", "invalid taint"},
		"taint value":           {"KUBELET_FLAGS", "--register-with-taints=a=b=c:NoExecute", "invalid taint"},
		"taint twice":           {"KUBELET_FLAGS", "--register-with-taints=a=b:NoExecute,a=c:NoExecute", "there twice"},
		"label key":             {"KUBELET_NODE_LABELS", "a b=c", "invalid label key"},
		"label value":           {"KUBELET_NODE_LABELS", "a=b c", "invalid value"},
		"long label":            {"KUBELET_NODE_LABELS", "a=" + strings.Repeat("x", 64), "invalid value"},
		"kubernetes.io label":   {"KUBELET_NODE_LABELS", "kubernetes.io/role=agent", "unknown label"},
		"k8s.io label":          {"KUBELET_NODE_LABELS", "x.k8s.io/y=z", "unknown label"},
		"restricted label":      {"KUBELET_NODE_LABELS", "node-restriction.kubernetes.io/a=b", "unknown label"},
		"role label":            {"KUBELET_NODE_LABELS", "node-role.kubernetes.io/control-plane=", "unknown label"},
		"label in flags":        {"KUBELET_FLAGS", "--node-labels=kubernetes.io/cluster=x", "unknown label"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			env := goodEnvironment(ca)
			env[test.variable] = test.value
			_, err := ReadPayload(t.Context(), script(env))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			if strings.Contains(err.Error(), env["TLS_BOOTSTRAP_TOKEN"]) && env["TLS_BOOTSTRAP_TOKEN"] != "" {
				t.Errorf("the error gives the token away: %v", err)
			}
		})
	}
}

func TestAllowedPayloads(t *testing.T) {
	ca := testAuthority(t)
	for name, test := range map[string]struct{ version, flags, labels string }{
		"quota period":        {"1.36.3", "--cpu-cfs-quota-period=50ms", ""},
		"its feature gate":    {"1.35.1", "--cpu-cfs-quota-period=50ms --feature-gates=CustomCPUCFSQuotaPeriod=true", ""},
		"flags of 1.30":       {"1.30.7", "--cloud-config=/x --pod-infra-container-image=y --keep-terminated-pod-volumes=false", ""},
		"with a v":            {"v1.36.3", "", ""},
		"underscores":         {"1.36.3", "--max_pods=30", ""},
		"verbosity":           {"1.36.3", "--v=2 -v 4", ""},
		"separate values":     {"1.36.3", "--max-pods 30 --feature-gates A=true,B=false", ""},
		"own kubernetes.io":   {"1.36.3", "", "node.kubernetes.io/x=y,kubelet.kubernetes.io/a=b,topology.kubernetes.io/zone=eastus-1,kubernetes.io/arch=amd64"},
		"almost kubernetes":   {"1.36.3", "", "notkubernetes.io/x=y,kubernetes.azure.com/mode=user"},
		"empty label value":   {"1.36.3", "", "a=,b"},
		"flags with a prefix": {"1.36.3", "--node-labels=a=b --node-labels=c=d", "e=f"},
	} {
		t.Run(name, func(t *testing.T) {
			env := goodEnvironment(ca)
			env["KUBERNETES_VERSION"], env["KUBELET_FLAGS"], env["KUBELET_NODE_LABELS"] = test.version, test.flags, test.labels
			if _, err := ReadPayload(t.Context(), script(env)); err != nil {
				t.Error(err)
			}
		})
	}
}

// What one kubelet accepts, another need not.
func TestFlagsDependOnTheVersion(t *testing.T) {
	for _, flags := range []string{"--cpu-cfs-quota-period=50ms", "--no-such-flag"} {
		if _, err := parseKubelet([]string{flags}, "1.35.1"); err == nil {
			t.Errorf("kubelet 1.35 started with %s", flags)
		}
	}
}

func testVM(customData []byte) azureemulator.VM {
	return azureemulator.VM{
		ID:   "/subscriptions/s1/resourceGroups/MC_demo/providers/Microsoft.Compute/virtualMachines/aks-default-x7k2p",
		Name: "aks-default-x7k2p", ComputerName: "AKS-default-x7k2p", SubscriptionID: "s1", ResourceGroup: "MC_demo",
		Location: "eastus", Zone: "2", PrivateIP: "10.224.0.7", Priority: "Spot",
		ImageID:    "/CommunityGalleries/AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b/images/V3gen2/versions/202510.19.0",
		CustomData: customData,
		Size:       catalog.Size{Name: "Standard_NC24ads_A100_v4", VCPUs: 24, VCPUsAvailable: 24, MemoryGiB: 220, GPUs: 1, MaxDataDisks: 8, Architecture: "x64"},
	}
}

func TestNodeFromPayload(t *testing.T) {
	p, err := ReadPayload(t.Context(), script(goodEnvironment(testAuthority(t))))
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(testVM(nil), p, 128, time.Unix(0, 0))
	if diff := cmp.Diff(map[string]string{
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
		"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": "aks-default-x7k2p",
		"karpenter.sh/nodepool": "default", "kubernetes.azure.com/role": "agent",
	}, n.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{
		{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
		{Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
	}, n.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	amounts := map[string]string{}
	for name, q := range n.Status.Capacity {
		left := n.Status.Allocatable[name]
		amounts[string(name)] = q.String() + " " + left.String()
	}
	if diff := cmp.Diff(map[string]string{
		"cpu": "24 23860m", "pods": "110 110", "nvidia.com/gpu": "1 1",
		// 220 GiB less 3.5 %, then less 1843 MiB and 750 MiB.
		"memory": "222612684Ki 219957452Ki", "ephemeral-storage": "129882495Ki 129882495Ki",
	}, amounts); diff != "" {
		t.Errorf("capacity and allocatable (-want +got):\n%s", diff)
	}
	if got := n.Status.NodeInfo; got.OSImage != "Microsoft Azure Linux 3.0" || got.KubeletVersion != "v1.36.3" || got.Architecture != "amd64" {
		t.Errorf("node info: %+v", got)
	}
	if n.Name != "aks-default-x7k2p" || n.Spec.ProviderID != "" {
		t.Errorf("name %q, provider id %q", n.Name, n.Spec.ProviderID)
	}
}

func TestAllocatable(t *testing.T) {
	all := corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("8Gi"), "ephemeral-storage": resource.MustParse("100Gi"), "pods": resource.MustParse("30"),
	}
	for name, test := range map[string]struct{ flags, cpu, memory, disk string }{
		"kubelet's own defaults": {"", "2", "8092Mi", "90Gi"},
		"flag replaces them all": {"--eviction-hard=memory.available<10%", "2", "7730941133", "100Gi"},
		"both reservations":      {"--kube-reserved=cpu=100m --system-reserved=cpu=50m,ephemeral-storage=10Gi --eviction-hard=pid.available<1", "1850m", "8Gi", "90Gi"},
		"never below zero":       {"--kube-reserved=cpu=3,memory=9Gi", "0", "0", "90Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := parseKubelet(strings.Fields(test.flags), "1.36.3")
			if err != nil {
				t.Fatal(err)
			}
			got := allocatable(all, k)
			for resourceName, want := range map[corev1.ResourceName]string{"cpu": test.cpu, "memory": test.memory, "ephemeral-storage": test.disk, "pods": "30"} {
				if q := got[resourceName]; q.Cmp(resource.MustParse(want)) != 0 {
					t.Errorf("%s is %s, want %s", resourceName, q.String(), want)
				}
			}
		})
	}
}

func TestGPUsNeedTheDriver(t *testing.T) {
	for name, test := range map[string]struct {
		size   string
		driver bool
		want   int
	}{
		"asked for":       {"Standard_NC24ads_A100_v4", true, 1},
		"not asked for":   {"Standard_NC24ads_A100_v4", false, 0},
		"another maker's": {"Standard_NV28adms_V710_v5", true, 0},
		"no GPU":          {"Standard_D4s_v5", true, 0},
	} {
		size := catalog.Size{Name: test.size, VCPUsAvailable: 24, MemoryGiB: 220, GPUs: 1}
		if strings.Contains(test.size, "_D") {
			size.GPUs = 0
		}
		q := capacity(observe(size, 128), Payload{GPUDriver: test.driver})[resourceNVIDIA]
		if q.Value() != int64(test.want) {
			t.Errorf("%s: %s has %s GPUs, want %d", name, test.size, q.String(), test.want)
		}
	}
}

func TestConsoleIsBounded(t *testing.T) {
	var c consoleLog
	for range 3 * consoleLines {
		c.add("busy", strings.Repeat("x", 2*lineLength), time.Unix(0, 0))
	}
	if lines := strings.Split(c.read("busy"), "\n"); len(lines) != consoleLines || len(lines[0]) > lineLength+30 {
		t.Errorf("%d lines of %d bytes", len(lines), len(lines[0]))
	}
	for i := range consoles {
		c.add(string(rune('0'+i%10))+time.Duration(i).String(), "x", time.Unix(0, 0))
	}
	if c.read("busy") != "" || len(c.lines) != consoles {
		t.Errorf("%d VMs kept", len(c.lines))
	}
}
