// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// asked returns the machine requested from AKS for a class and claim.
func (r *region) asked(t *testing.T, change func(*v1beta1.AKSNodeClass), c provider.Claim) (body map[string]any, header http.Header) {
	t.Helper()
	class := class("1.36.3")
	change(class)
	r.class.Store(class)
	r.watched(func(req *http.Request) {
		if req.Method != http.MethodPut || body != nil {
			return
		}
		raw, err := io.ReadAll(req.Body)
		if err != nil || json.Unmarshal(raw, &body) != nil {
			t.Errorf("the body is %s, %v", raw, err)
		}
		req.Body, header = io.NopCloser(strings.NewReader(string(raw))), http.Header{}
		for key, values := range req.Header { // the SDK spells some as it likes
			header[http.CanonicalHeaderKey(key)] = values
		}
	})
	run(t, r.provider(t), c)
	return body, header
}

// AKS receives every setting of a node class and a claim.
//
// Rule AKS-1.
func TestAKSIsToldAll(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	c := claim("a", spot("Standard_D4s_v5", "eastus-2"))
	c.Taints = []provider.Taint{{Key: "only", Value: "a", Effect: "NoSchedule"}}
	body, header := r.asked(t, func(class *v1beta1.AKSNodeClass) {
		yes, logSize, swap, period := true, "10Mi", "1500Mi", metav1.Duration{Duration: 50e6}
		class.Spec.Kubelet = &v1beta1.KubeletConfiguration{ContainerLogMaxSize: &logSize, CPUCFSQuotaPeriod: &period}
		class.Spec.LinuxOSConfig = &v1beta1.LinuxOSConfiguration{SwapFileSize: &swap}
		class.Spec.Security = &v1beta1.Security{EncryptionAtHost: &yes}
		class.Spec.Tags = map[string]string{"cost": "center"}
	}, c)
	properties := body["properties"].(map[string]any)
	tags := properties["tags"].(map[string]any)
	for key, want := range map[string]string{"cost": "center", "karve.dev_claim": "a", "karpenter.azure.com_aksmachine_nodeclaim": "a", "karpenter.sh_nodepool": "web"} {
		if tags[key] != want {
			t.Errorf("tag %s is %v, want %s", key, tags[key], want)
		}
	}
	kubernetes := properties["kubernetes"].(map[string]any)
	labels := kubernetes["nodeLabels"].(map[string]any)
	if labels["team"] != "a" || labels["karpenter.sh/nodepool"] != "web" || labels["karpenter.sh/capacity-type"] != "spot" {
		t.Errorf("labels: %v", labels)
	}
	for key := range labels {
		if strings.Contains(key, "kubernetes.azure.com/") || strings.Contains(key, "zone") {
			t.Errorf("label %s is not for us to set", key)
		}
	}
	delete(properties, "tags")
	delete(kubernetes, "nodeLabels")
	want := map[string]any{
		"zones": []any{"2"},
		"properties": map[string]any{
			"hardware": map[string]any{"vmSize": "Standard_D4s_v5"}, "mode": "User", "priority": "Spot", "evictionPolicy": "Delete",
			"billing": map[string]any{"spotMaxPrice": -1.0}, "nodeImageVersion": "AKSUbuntu-2404gen2containerd-202511.02.0",
			"network":         map[string]any{"vnetSubnetID": r.SubnetID()},
			"localDNSProfile": map[string]any{"mode": "Disabled"},
			"security":        map[string]any{"enableEncryptionAtHost": true, "sshAccess": "LocalUser"},
			"operatingSystem": map[string]any{
				"osType": "Linux", "osSKU": "Ubuntu2404", "osDiskSizeGB": 128.0, "osDiskType": "Managed", "enableFIPS": false,
				"linuxProfile": map[string]any{"linuxOSConfig": map[string]any{"swapFileSizeMB": 1500.0}},
			},
			"kubernetes": map[string]any{
				"orchestratorVersion": "1.36.3", "maxPods": kubernetes["maxPods"],
				"kubeletConfig":            map[string]any{"containerLogMaxSizeMB": 10.0, "cpuCfsQuotaPeriod": "50ms"},
				"nodeInitializationTaints": []any{"karpenter.sh/unregistered=:NoExecute", "only=a:NoSchedule"},
			},
		},
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	if header.Get("AllowSpotVMSystemNode") != "true" || header.Get("If-None-Match") != "*" || header.Get("BatchPutMachine") != "" {
		t.Errorf("with the headers %v", header)
	}
}

// Each request to AKS says whether nodes run the DNS cache, whatever the class prefers.
//
// Rule BOOTSTRAP-8.
func TestAKSIsToldOfTheDNSCache(t *testing.T) {
	for _, test := range []struct {
		mode    v1beta1.LocalDNSMode
		enabled bool
		want    string
	}{
		{"", false, "Disabled"}, {v1beta1.LocalDNSModeDisabled, false, "Disabled"}, {v1beta1.LocalDNSModePreferred, false, "Disabled"},
		{v1beta1.LocalDNSModePreferred, true, "Required"}, {v1beta1.LocalDNSModeRequired, true, "Required"},
	} {
		r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
		body, _ := r.asked(t, func(class *v1beta1.AKSNodeClass) {
			if test.mode != "" {
				class.Spec.LocalDNS = &v1beta1.LocalDNS{Mode: test.mode}
			}
			if test.enabled {
				class.Status.LocalDNSState = to.Ptr(v1beta1.LocalDNSStateEnabled)
			}
		}, claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
		sent, _ := body["properties"].(map[string]any)["localDNSProfile"].(map[string]any)
		if sent["mode"] != test.want {
			t.Errorf("mode %q, enabled %v: AKS gets %v, want %s", test.mode, test.enabled, sent, test.want)
		}
	}
}

// No setting of kubelet and operating system is lost in the conversion to AKS's API.
//
// Rule AKS-1.
func TestAKSHearsEverySetting(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	var set map[string]int
	body, _ := r.asked(t, func(class *v1beta1.AKSNodeClass) {
		class.Spec.Kubelet, class.Spec.LinuxOSConfig = new(v1beta1.KubeletConfiguration), &v1beta1.LinuxOSConfiguration{Sysctls: new(v1beta1.SysctlConfiguration)}
		set = map[string]int{"kubeletConfig": fill(class.Spec.Kubelet), "linuxOSConfig": fill(class.Spec.LinuxOSConfig), "sysctls": fill(class.Spec.LinuxOSConfig.Sysctls)}
	}, claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
	properties := body["properties"].(map[string]any)
	kubelet := properties["kubernetes"].(map[string]any)["kubeletConfig"].(map[string]any)
	os := properties["operatingSystem"].(map[string]any)["linuxProfile"].(map[string]any)["linuxOSConfig"].(map[string]any)
	got := map[string]int{"kubeletConfig": len(kubelet), "linuxOSConfig": len(os), "sysctls": len(os["sysctls"].(map[string]any))}
	if diff := cmp.Diff(set, got); diff != "" {
		t.Errorf("settings that were made and sent (-want +got):\n%s", diff)
	}
}

// fill sets every field of a struct of pointers and lists, and counts them.
func fill(v any) int {
	s := reflect.ValueOf(v).Elem()
	for _, f := range s.Fields() {
		switch {
		case f.Type() == reflect.TypeFor[*string]():
			text := "10Mi"
			f.Set(reflect.ValueOf(&text))
		case f.Kind() == reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case f.IsNil():
			f.Set(reflect.New(f.Type().Elem()))
		}
	}
	return s.NumField()
}

// Tokens for AKS's galleries are for Compute: AKS needs none.
//
// Rule IMAGE-6.
func TestAKSNeedsNoToken(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	r.options.SharedGallery = azure.SharedGallery{SubscriptionID: r.SharedSubscriptionID()}
	run(t, r.provider(t), claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
	r.options.AKSMachines = azure.AKSMachines{}
	if _, err := azure.New(t.Context(), r.options); err == nil || !strings.Contains(err.Error(), "SharedGallery.TokenURL") {
		t.Errorf("Compute without a server of tokens: %v", err)
	}
}
