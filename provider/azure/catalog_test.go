// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

func snapshot(t *testing.T, p *azure.Provider) *provider.Catalog {
	t.Helper()
	s, err := p.Catalog(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func find(s *provider.Catalog, name string) *offering.InstanceType {
	for i := range s.Types {
		if s.Types[i].Name == name {
			return &s.Types[i]
		}
	}
	return nil
}

func mustFind(t *testing.T, s *provider.Catalog, name string) *offering.InstanceType {
	t.Helper()
	if found := find(s, name); found != nil {
		return found
	}
	t.Fatalf("%s is not on sale", name)
	return nil
}

func TestInstanceTypesOfARealSKU(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	s := snapshot(t, r.provider(t))
	if s.Problem != "" {
		t.Errorf("problem: %s", s.Problem)
	}
	d4 := mustFind(t, s, "Standard_D4ds_v5")
	want := map[string][]string{
		"kubernetes.io/arch": {"amd64"}, "kubernetes.io/os": {"linux"}, "topology.kubernetes.io/region": {"eastus"},
		"karpenter.azure.com/sku-name": {"Standard_D4ds_v5"}, "karpenter.azure.com/sku-family": {"D"}, "karpenter.azure.com/sku-series": {"Ddsv5"},
		"karpenter.azure.com/sku-version": {"5"}, "karpenter.azure.com/sku-cpu": {"4"}, "karpenter.azure.com/sku-memory": {"16384"},
		"karpenter.azure.com/sku-networking-accelerated": {"true"}, "karpenter.azure.com/sku-storage-premium-capable": {"true"},
		"karpenter.azure.com/sku-storage-ephemeralos-maxsize": {"161"},
		"kubernetes.azure.com/cluster":                        {"MC_karve_karve_eastus"}, "kubernetes.azure.com/mode": {"system", "user"},
		"kubernetes.azure.com/os-sku": {"Ubuntu"}, "kubernetes.azure.com/sku-cpu": {"4"}, "kubernetes.azure.com/sku-memory": {"16384"},
		"kubernetes.azure.com/localdns-state": {"disabled"}, "kubernetes.azure.com/role": {"agent"}, "kubernetes.azure.com/ebpf-dataplane": {"cilium"},
		"kubernetes.azure.com/azure-cni-overlay": {"true"}, "kubernetes.azure.com/podnetwork-type": {"overlay"},
		"kubernetes.azure.com/network-stateless-cni": {"true"}, "kubernetes.azure.com/network-subnet": {"aks-subnet"},
		"kubernetes.azure.com/os-sku-requested": {"Ubuntu"}, "kubernetes.azure.com/os-sku-effective": {"Ubuntu2404"},
	}
	if diff := cmp.Diff(want, d4.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	capacity := quantity.Amounts{"cpu": 4000, "memory": 15891378995, "pods": 250, "ephemeral-storage": 128_000_000_000, "attachable-volumes-csi-disk.csi.azure.com": 8}
	if diff := cmp.Diff(capacity, d4.Capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	overhead := quantity.Amounts{"cpu": 140, "memory": (4096 + 100) << 20, "ephemeral-storage": 12_800_000_000}
	if diff := cmp.Diff(overhead, d4.Overhead); diff != "" {
		t.Errorf("overhead (-want +got):\n%s", diff)
	}
	var ways []string
	for _, o := range d4.Offerings {
		ways = append(ways, o.Zone+" "+o.CapacityType+" "+o.Price.String())
	}
	if diff := cmp.Diff([]string{
		"eastus-1 on-demand 0.2260", "eastus-1 spot 0.0477", "eastus-2 on-demand 0.2260", "eastus-2 spot 0.0477",
		"eastus-3 on-demand 0.2260", "eastus-3 spot 0.0477", "0 on-demand 0.2260", "0 spot 0.0477",
	}, ways); diff != "" {
		t.Errorf("offerings (-want +got):\n%s", diff)
	}
	address := offering.QuotaUse{Quota: addressesOf(r.SubnetID()), Amount: 1}
	draws := []offering.QuotaUse{{Quota: "family:standardDDSv5Family", Amount: 4}, {Quota: "regional", Amount: 4}, {Quota: "virtualMachines", Amount: 1}, address}
	if diff := cmp.Diff(draws, d4.Offerings[0].QuotaUses); diff != "" {
		t.Errorf("draws (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]offering.QuotaUse{{Quota: "lowPriority", Amount: 4}, {Quota: "virtualMachines", Amount: 1}, address}, d4.Offerings[1].QuotaUses); diff != "" {
		t.Errorf("draws of spot (-want +got):\n%s", diff)
	}
	for _, o := range d4.Offerings {
		for _, d := range o.QuotaUses {
			if _, ok := s.QuotaLeft[d.Quota]; !ok {
				t.Errorf("nothing is known of budget %s", d.Quota)
			}
		}
	}
}

// The labels that a node will have are known before launch, except those that only Azure can
// report about its network.
//
// Rule REQUIREMENT-6.
func TestClusterLabelsAreInTheCatalog(t *testing.T) {
	guest := bootRecorder{make(chan azureemulator.VM, 1)}
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, Guest: guest}).small()
	r.options.KubeletIdentityClientID = "7a1f6471-1bf0-4dda-aec3-cb9272f09590"
	streaming := class("1.36.3")
	streaming.Spec.ArtifactStreaming = &v1beta1.ArtifactStreaming{Enabled: to.Ptr(true)}
	r.class.Store(streaming)
	p := r.provider(t)
	offered := mustFind(t, snapshot(t, p), "Standard_D2s_v5")
	c := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
	run(t, p, c)
	payload, err := node.ReadPayload(t.Context(), (<-guest.booted).CustomData)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range payload.Kubelet.Labels {
		if key == v1beta1.AKSLabelVNetGUID || !strings.HasPrefix(key, v1beta1.AKSLabelDomain) {
			continue
		}
		known := slices.Contains(offered.Labels[key], value)
		for _, o := range offered.Offerings {
			known = known || slices.Contains(o.Labels[key], value)
		}
		if !known {
			t.Errorf("the node is born with %s=%s, which nobody could plan with", key, value)
		}
	}
	for key, want := range map[string]string{
		v1beta1.AKSLabelEBPFDataplane: "cilium", v1beta1.AKSLabelRole: "agent", v1beta1.AKSLabelArtifactStreaming: "true",
		v1beta1.AKSLabelPodNetworkType: "overlay", v1beta1.AKSLabelOSSKUEffective: "Ubuntu2404",
	} {
		if got := payload.Kubelet.Labels[key]; got != want || !slices.Equal(offered.Labels[key], []string{want}) {
			t.Errorf("%s is %q on the node and %v in the catalog, want %s", key, got, offered.Labels[key], want)
		}
	}
	plain := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	plain.options.NetworkPlugin, plain.options.NetworkDataplane = "azure", "azure"
	labels := mustFind(t, snapshot(t, plain.provider(t)), "Standard_D2s_v5").Labels
	for _, key := range []string{v1beta1.AKSLabelEBPFDataplane, v1beta1.AKSLabelPodNetworkType, v1beta1.AKSLabelArtifactStreaming} {
		if labels[key] != nil {
			t.Errorf("%s is %v in a cluster without Cilium, overlay and artifact streaming", key, labels[key])
		}
	}
}

// Rule CATALOG-1.
func TestSKUsThatCannotBeNodesAreLeftOut(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	s := snapshot(t, r.provider(t))
	for name, why := range map[string]string{
		"Standard_A1_v2": "one vCPU", "Standard_E4-2s_v5": "cores turned off", "Standard_DC4as_v5": "confidential", "Standard_NP10s": "an FPGA",
		"Standard_NV4as_v4": "a GPU without a driver", "Standard_NV8ads_V710_v5": "an AMD GPU while AKS installs drivers",
	} {
		if find(s, name) != nil {
			t.Errorf("%s is on sale, despite %s", name, why)
		}
	}
	gpu := mustFind(t, s, "Standard_NC24ads_A100_v4")
	if gpu.Capacity["nvidia.com/gpu"] != 1 || !slices.Equal(gpu.Labels["karpenter.azure.com/sku-gpu-name"], []string{"A100"}) {
		t.Errorf("GPU type: %v, %v", gpu.Capacity, gpu.Labels)
	}
	arm := mustFind(t, s, "Standard_D4ps_v5")
	if !slices.Equal(arm.Labels["kubernetes.io/arch"], []string{"arm64"}) {
		t.Errorf("architecture %v", arm.Labels["kubernetes.io/arch"])
	}
}

// Rule CATALOG-1.
func TestClassNarrowsTypes(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	p := r.provider(t)
	all := len(snapshot(t, p).Types)
	for _, test := range []struct {
		name       string
		change     func(*v1beta1.AKSNodeClass)
		gone, kept string
	}{
		{"trusted launch", func(c *v1beta1.AKSNodeClass) {
			c.Spec.Security = &v1beta1.Security{TrustedLaunch: &v1beta1.TrustedLaunch{SecureBoot: to.Ptr(true)}}
		}, "Standard_D4ps_v5", "Standard_D4s_v5"},
		{"encryption at host", func(c *v1beta1.AKSNodeClass) {
			c.Spec.Security = &v1beta1.Security{EncryptionAtHost: to.Ptr(true)}
		}, "Standard_A4_v2", "Standard_D4s_v5"},
		{"artifact streaming", func(c *v1beta1.AKSNodeClass) {
			c.Spec.ArtifactStreaming = &v1beta1.ArtifactStreaming{Enabled: to.Ptr(true)}
		}, "Standard_D4ps_v5", "Standard_D4s_v5"},
		{"AzureLinux and drivers", func(c *v1beta1.AKSNodeClass) {
			c.Spec.ImageFamily = to.Ptr(v1beta1.ImageFamilyAzureLinux)
		}, "Standard_NV36ads_A10_v5", "Standard_NC24ads_A100_v4"},
		{"drivers are the user's own", func(c *v1beta1.AKSNodeClass) {
			c.Spec.ImageFamily, c.Spec.GPU = to.Ptr(v1beta1.ImageFamilyAzureLinux), &v1beta1.GPU{Mode: to.Ptr(v1beta1.GPUModeNone)}
			c.Spec.ArtifactStreaming = &v1beta1.ArtifactStreaming{Enabled: to.Ptr(true)} // so that some type is excluded
		}, "Standard_D4ps_v5", "Standard_NV36ads_A10_v5"},
		{"the DNS cache", func(c *v1beta1.AKSNodeClass) {
			c.Status.LocalDNSState = to.Ptr(v1beta1.LocalDNSStateEnabled)
		}, "Standard_D2s_v5", "Standard_D4s_v5"},
		{"images of the status", func(c *v1beta1.AKSNodeClass) {
			images, err := p.Images(t.Context(), azure.ImageSelection{Spec: &c.Spec, Kubernetes: "1.36.3"})
			if err != nil {
				t.Fatal(err)
			}
			c.Status.Images = images[:1] // generation 2 of amd64
		}, "Standard_D4ps_v5", "Standard_D4s_v5"},
	} {
		c := class("1.36.3")
		test.change(c)
		r.class.Store(c)
		s := snapshot(t, p)
		if find(s, test.gone) != nil || find(s, test.kept) == nil || len(s.Types) >= all {
			t.Errorf("%s: %s on sale is %v, %s is %v; %d of %d types are left", test.name,
				test.gone, find(s, test.gone) != nil, test.kept, find(s, test.kept) != nil, len(s.Types), all)
		}
	}
	small := class("1.36.3")
	small.Spec.MaxPods, small.Spec.OSDiskSizeGB = to.Ptr(int32(50)), to.Ptr(int32(64))
	r.class.Store(small)
	if c := mustFind(t, snapshot(t, p), "Standard_D4s_v5").Capacity; c["pods"] != 50 || c["ephemeral-storage"] != 64_000_000_000 {
		t.Errorf("capacity %v", c)
	}
}

func TestRestrictionsAndQuotaOfNothingAreToldInWords(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1,
		Quota:        map[string]int{"standardESv5Family": 0},
		Restrictions: []azureemulator.Restriction{{Size: "Standard_D4s_v5"}, {Size: "Standard_D8s_v5", Zones: []string{"2"}}},
	})
	s := snapshot(t, r.provider(t))
	why := func(size, zone, ct string) string {
		for _, o := range mustFind(t, s, size).Offerings {
			if o.Zone == zone && o.CapacityType == ct {
				return o.Unavailable
			}
		}
		return "not offered"
	}
	for _, test := range []struct{ size, zone, ct, want string }{
		{"Standard_D4s_v5", "eastus-1", offering.OnDemand, "not offered to this subscription (NotAvailableForSubscription)"},
		{"Standard_D4s_v5", "0", offering.Spot, "not offered to this subscription (NotAvailableForSubscription)"},
		{"Standard_D8s_v5", "eastus-2", offering.OnDemand, "not offered to this subscription (NotAvailableForSubscription)"},
		{"Standard_D8s_v5", "eastus-1", offering.OnDemand, ""},
		{"Standard_E4s_v5", "eastus-1", offering.OnDemand, "quota family:standardESv5Family is 0, this takes 4"},
		{"Standard_E4s_v5", "eastus-1", offering.Spot, ""},
	} {
		if got := why(test.size, test.zone, test.ct); got != test.want {
			t.Errorf("%s in %s (%s): %q, want %q", test.size, test.zone, test.ct, got, test.want)
		}
	}
}

func TestCatalogKeepsItsTypesWhileOnlyQuotaChanges(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	p := r.provider(t)
	before := snapshot(t, p)
	if _, err := p.Launch(t.Context(), claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
		t.Fatal(err)
	}
	after := snapshot(t, p)
	if after == before || &after.Types[0] != &before.Types[0] {
		t.Errorf("after a launch: same snapshot %v, same types %v", after == before, &after.Types[0] == &before.Types[0])
	}
}

// Rule QUOTA-3.
func TestCatalogWithoutPricesOrQuotaSaysSo(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	r.options.PricesURL = r.URL() + "/nowhere"
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/usages$", Status: 403, Code: "AuthorizationFailed", Times: -1})
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/subnets/[^/]+$", Status: 403, Code: "AuthorizationFailed", Times: -1,
		Message: "The client 'c' with object id 'o-1' does not have authorization to perform action 'Microsoft.Network/virtualNetworks/subnets/read' over scope '/x' or the scope is invalid."})
	s := snapshot(t, r.provider(t))
	for _, words := range []string{"reading prices", "reading quota", "built-in prices (eastus, 2026-08)", "reading addresses of subnet", `assign the role "Network Contributor"`, "without regard to the addresses"} {
		if !strings.Contains(s.Problem, words) {
			t.Errorf("the problem does not say %q: %s", words, s.Problem)
		}
	}
	if len(s.Types) < 900 || len(s.QuotaLeft) != 0 {
		t.Errorf("%d types, %d budgets", len(s.Types), len(s.QuotaLeft))
	}
	small, large := mustFind(t, s, "Standard_D2s_v5").Offerings[0].Price, mustFind(t, s, "Standard_D8s_v5").Offerings[0].Price
	if small <= 0 || large <= small {
		t.Errorf("built-in prices: %v for two vCPUs, %v for eight", small, large)
	}
}

func TestCatalogWithoutSKUsIsAnErrorUntilTheyCome(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	r.options.ClientOptions.Retry.MaxRetries = -1
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/skus$", Status: 500})
	if _, err := r.provider(t).Catalog(t.Context(), "default"); err == nil {
		t.Error("no sizes and no error")
	}
	snapshot(t, r.provider(t))
	if _, err := r.provider(t).Catalog(t.Context(), "nobody"); !errors.As(err, new(*provider.NotReadyError)) {
		t.Errorf("a class that does not exist: %v", err)
	}
}

func TestRegionWithoutZones(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, Location: "westcentralus"})
	p := r.provider(t)
	s := snapshot(t, p)
	for _, o := range mustFind(t, s, "Standard_D4s_v5").Offerings {
		if o.Zone != "0" || !reflect.DeepEqual(o.Labels["karpenter.azure.com/placement-scope"], []string{"regional"}) {
			t.Errorf("offer in %q with %v", o.Zone, o.Labels)
		}
	}
	if in, _ := run(t, p, claim("a", onDemand("Standard_D4s_v5", "0"))); in.Zone != "0" || in.Labels["karpenter.azure.com/placement-scope"] != "regional" {
		t.Errorf("VM in %q with %v", in.Zone, in.Labels)
	}
}

// Rule NETWORK-2.
func TestCheckSubnet(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	p := r.provider(t)
	own := r.SubnetID()
	for _, test := range []struct{ id, reason string }{
		{"", ""},
		{own, ""},
		{strings.ToUpper(own), ""}, // ARM ids ignore case
		{"/subscriptions/nonsense", azure.SubnetIDInvalid},
		{strings.Replace(own, "/subnets/aks-subnet", "/subnets/other", 1), azure.SubnetIDInvalid}, // AKS's own network has one
		{strings.Replace(own, "/virtualNetworks/aks", "/virtualNetworks/x", 1), azure.SubnetIDInvalid},
	} {
		err := p.CheckSubnet(t.Context(), test.id, 0)
		var wrong *azure.SubnetError
		if errors.As(err, &wrong) != (test.reason != "") || wrong != nil && wrong.Reason != test.reason || wrong == nil && err != nil {
			t.Errorf("%q: %v, want reason %q", test.id, err, test.reason)
		}
	}
	mine, err := r.Network.AddSubnet(r.NodeResourceGroup(), "mine", "one", "10.9.0.0/24")
	if err != nil {
		t.Fatal(err)
	}
	r.options.VNetSubnetID = mine
	p = r.provider(t)
	if err := p.CheckSubnet(t.Context(), mine, 0); err != nil {
		t.Error(err)
	}
	var wrong *azure.SubnetError
	if err := p.CheckSubnet(t.Context(), strings.Replace(mine, "/one", "/two", 1), 0); !errors.As(err, &wrong) || wrong.Reason != azure.SubnetNotFound {
		t.Errorf("a subnet that does not exist: %v", err)
	}
	if err := r.Network.DelegateSubnet(mine, "Microsoft.Web/serverFarms"); err != nil {
		t.Fatal(err)
	}
	if err := p.CheckSubnet(t.Context(), mine, 0); !errors.As(err, &wrong) || wrong.Reason != azure.SubnetDelegated || !strings.Contains(wrong.Detail, "Microsoft.Web/serverFarms") {
		t.Errorf("a delegated subnet: %v", err)
	}
	if err := r.Network.DelegateSubnet(mine, ""); err != nil {
		t.Fatal(err)
	}
	// In a user-managed network the interface names the agent pools' security group.
	run(t, p, claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
}

// Rule BOOTSTRAP-7.
func TestFieldsWithoutEffect(t *testing.T) {
	c := class("1.36.3")
	if fields := azure.MalformedAnnotations(c); len(fields) > 0 {
		t.Errorf("an empty class has %v", fields)
	}
	c.Spec.LocalDNS = &v1beta1.LocalDNS{Mode: v1beta1.LocalDNSModePreferred}
	c.Annotations = map[string]string{azure.AnnotationSpotMaxPrice: "cheap"}
	c.Spec.ArtifactStreaming = &v1beta1.ArtifactStreaming{Enabled: to.Ptr(true)}
	c.Spec.LinuxOSConfig = &v1beta1.LinuxOSConfiguration{SwapFileSize: to.Ptr("1Gi"), Sysctls: &v1beta1.SysctlConfiguration{}}
	if fields := azure.MalformedAnnotations(c); len(fields) != 1 {
		t.Errorf("got %d: %v", len(fields), fields)
	}
	for _, mode := range []v1beta1.LocalDNSMode{v1beta1.LocalDNSModeDisabled, v1beta1.LocalDNSModeRequired} {
		c.Spec.LocalDNS.Mode = mode
		if fields := azure.MalformedAnnotations(c); len(fields) != 1 {
			t.Errorf("a cache that is %s counts: %v", mode, fields)
		}
	}
}

// The DNS cache takes part of a small node's cores, so it is not enabled there.
//
// Rule BOOTSTRAP-8.
func TestLocalDNSWantsFourCores(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	c := class("1.36.3")
	c.Status.LocalDNSState = to.Ptr(v1beta1.LocalDNSStateEnabled)
	r.class.Store(c)
	s := snapshot(t, r.provider(t))
	d4 := mustFind(t, s, "Standard_D4ds_v5")
	if got := d4.Labels[v1beta1.AKSLabelLocalDNSState]; len(got) != 1 || got[0] != "enabled" {
		t.Errorf("label %s is %v", v1beta1.AKSLabelLocalDNSState, got)
	}
	for _, small := range s.Types {
		if small.Capacity["cpu"] < 4000 {
			t.Errorf("%s is on sale with the cache", small.Name)
		}
	}
}

// The whole region with a new node class: the cost of a new class.
func BenchmarkCatalog(b *testing.B) {
	server, err := azureemulator.Start(b.Context(), azureemulator.Options{SystemNodes: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	credential, err := server.Credential()
	if err != nil {
		b.Fatal(err)
	}
	pods := int32(0)
	p, err := azure.New(b.Context(), azure.Options{
		Credential: credential, ClientOptions: server.ClientOptions(), SubscriptionID: server.SubscriptionID(), Location: server.Location(),
		ClusterName: "karve", ClusterEndpoint: "https://karve.example", CABundle: server.CACertPEM(), NodeResourceGroup: server.NodeResourceGroup(),
		VNetSubnetID: server.SubnetID(), SSHPublicKey: "ssh-ed25519 AAAA", PricesURL: server.URL() + "/api/retail/prices",
		BootstrapToken: func(context.Context) (string, error) { return "t", nil },
		Classes: azure.ClassesFunc(func(context.Context, string) (*v1beta1.AKSNodeClass, error) {
			c := class("1.36.3")
			c.Spec.MaxPods = &pods
			return c, nil
		}),
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		pods++
		if _, err := p.Catalog(b.Context(), "default"); err != nil {
			b.Fatal(err)
		}
	}
}

// A negative limit means unlimited.
//
// Rule QUOTA-3.
func TestQuotaWithoutLimits(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	if err := r.Inject(azureemulator.NamedFault{Name: "QuotaWithoutLimits", Times: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.up(t, r.provider(t), claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
		t.Error(err)
	}
}
