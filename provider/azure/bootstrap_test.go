package azure

import (
	"bytes"
	"encoding/base64"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/emulator/node"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// testCA is a throw-away certificate: an ECDSA authority named "karve test",
// whose key nobody has kept.
const testCA = `-----BEGIN CERTIFICATE-----
MIIBTDCB86ADAgECAgEBMAoGCCqGSM49BAMCMBUxEzARBgNVBAMTCmthcnZlIHRl
c3QwIBcNMjYwMTAxMDAwMDAwWhgPMjEyNjAxMDEwMDAwMDBaMBUxEzARBgNVBAMT
CmthcnZlIHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAR+nrs1PDcA2YFI
awotXkKMh9fiz9kevfOb0w5Du4o1J+dM99uunNM//itYqoAD8YuK93XL577xGkcs
GiBPjx9kozIwMDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBR6/ziOoVPYrr5Z
PaZ9vtFTPH5RjjAKBggqhkjOPQQDAgNIADBFAiBpSJfKm9g2OXhdSceLMI21ENS2
fOZurNvYyMK9s2nKGQIhAPXz51aphcQFHLJwhcQ9wCUC+79ZTCo1w71VlmJOVGl/
-----END CERTIFICATE-----
`

func testNode() *bootNode {
	static, single := v1beta1.CPUManagerPolicyStatic, v1beta1.TopologyManagerPolicySingleNUMANode
	quota, files, pids, high, size := true, int32(3), int64(500), int32(90), "64Mi"
	return &bootNode{
		name: "aks-web-abcde-0123456789", server: "karve.example:6443", ca: []byte(testCA), token: "abcdef.0123456789abcdef", version: "1.36.3",
		labels: map[string]string{
			"example.com/team": "a", "karpenter.sh/nodepool": "web", "node.kubernetes.io/pool": "p",
			"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "eastus-1", "app.kubernetes.io/name": "left-to-the-controller",
			"node-restriction.kubernetes.io/x": "left-to-the-controller", "empty": "",
		},
		taints:  []provider.Taint{unregistered(), {Key: "b", Value: "v", Effect: "NoSchedule"}, {Key: "a", Effect: "NoExecute"}, {Key: "a", Effect: "NoExecute"}},
		maxPods: 110, reserved: reserve(4, 16<<10, 110, 128, 36), gpu: gpuDriver{present: true, install: true, kind: "cuda-lts", version: "580.159.04"},
		kubelet: &v1beta1.KubeletConfiguration{
			CPUManagerPolicy: &static, TopologyManagerPolicy: &single, CPUCFSQuota: &quota, CPUCFSQuotaPeriod: &metav1.Duration{Duration: 50 * time.Millisecond},
			ImageGCHighThresholdPercent: &high, ContainerLogMaxSize: &size, ContainerLogMaxFiles: &files, PodPidsLimit: &pids,
			AllowedUnsafeSysctls: []string{"net.core.somaxconn", "kernel.msg*"},
		},
		dns: "10.0.0.10", subscription: "s", tenant: "t", group: "MC_g", location: "eastus",
		subnet: subnetID{"s", "MC_g", "aks-vnet-12345678", "aks-subnet"}, networkPlugin: "none", identityClientID: "id", adminUser: "azureuser",
	}
}

func decoded(t *testing.T, n *bootNode) []byte {
	t.Helper()
	data, err := n.customData()
	if err != nil {
		t.Fatal(err)
	}
	script, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

func TestBootstrapGolden(t *testing.T) {
	got := decoded(t, testNode())
	for range 5 {
		if again := decoded(t, testNode()); !bytes.Equal(got, again) {
			t.Fatal("the same node gave two scripts")
		}
	}
	const golden = "testdata/bootstrap.sh"
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
		t.Errorf("the script changed; look at the difference, then run with -rewrite (-want +got):\n%s", diff)
	}
}

// The emulator's node reads the script with a real shell and the kubelet's own
// flag table. What it understands must be what was meant.
func TestBootstrapIsReadAsMeant(t *testing.T) {
	for _, version := range []string{"1.28.5", "1.30.1", "1.33.0", "1.34.2", "1.36.3"} {
		n := testNode()
		n.version = version
		p, err := node.ReadPayload(t.Context(), decoded(t, n))
		if err != nil {
			t.Fatalf("a node of %s would never join: %v", version, err)
		}
		if p.Server != n.server || p.Token != n.token || p.KubernetesVersion != version || !p.GPUDriver || string(p.CA) != testCA {
			t.Errorf("%s: read as %s, %s, GPU driver %v", version, p.Server, p.KubernetesVersion, p.GPUDriver)
		}
		want := map[string]string{"example.com/team": "a", "karpenter.sh/nodepool": "web", "node.kubernetes.io/pool": "p", "empty": ""}
		if diff := cmp.Diff(want, p.Kubelet.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", version, diff)
		}
		if len(p.Kubelet.Taints) != 3 || p.Kubelet.MaxPods != 110 {
			t.Errorf("%s: taints %v, max pods %d", version, p.Kubelet.Taints, p.Kubelet.MaxPods)
		}
	}
}

// Whatever stands in a value, the shell reads back exactly that.
//
// Rule 26.
func TestBootstrapValuesCannotBreakOut(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	const alphabet = "'\"\\`$(){};&|<>\n\t #!*?~=é"
	for range 200 {
		var b strings.Builder
		for range random.IntN(12) {
			runes := []rune(alphabet)
			b.WriteRune(runes[random.IntN(len(runes))])
		}
		value := b.String()
		n := testNode()
		n.token = "t" + value
		p, err := node.ReadPayload(t.Context(), decoded(t, n))
		if err != nil || p.Token != n.token {
			t.Fatalf("seed %d: token %q was read as %q, %v", seed, n.token, p.Token, err)
		}
	}
}

// Rule 26.
func TestBootstrapRefusesWhatAKubeletWould(t *testing.T) {
	for name, spoil := range map[string]func(*bootNode){
		"label value with a comma": func(n *bootNode) { n.labels["x"] = "a,b=c" },
		"label key":                func(n *bootNode) { n.labels["not a key"] = "v" },
		"taint effect":             func(n *bootNode) { n.taints = append(n.taints, provider.Taint{Key: "x", Effect: "Sometimes"}) },
		"taint value": func(n *bootNode) {
			n.taints = append(n.taints, provider.Taint{Key: "x", Value: "a b", Effect: "NoSchedule"})
		},
		"flag with white space": func(n *bootNode) { n.kubelet.AllowedUnsafeSysctls = []string{"a b"} },
	} {
		n := testNode()
		spoil(n)
		if _, err := n.customData(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
