// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8"
	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
)

const vmPath = "/virtualMachines/[^/]+$"

func (r *region) fault(t *testing.T, f azureemulator.Fault) {
	t.Helper()
	if err := r.AddFault(f); err != nil {
		t.Fatal(err)
	}
}

func onDemand(size, zone string) offering.Ref {
	return offering.Ref{Type: size, Zone: zone, CapacityType: offering.OnDemand}
}

func spot(size, zone string) offering.Ref {
	return offering.Ref{Type: size, Zone: zone, CapacityType: offering.Spot}
}

func claim(name string, offerings ...offering.Ref) provider.Claim {
	return provider.Claim{Name: name, UID: "uid-of-" + name, Pool: "web", Class: "default", Offerings: offerings, Labels: map[string]string{"team": "a"}}
}

// bootRecorder records the customData of virtual machines.
type bootRecorder struct{ booted chan azureemulator.VM }

func (b bootRecorder) Run(_ context.Context, m azureemulator.VM) { b.booted <- m }

// Nodes with new images get the document, those with older ones the script, and the flag applies
// to both.
//
// Rule BOOTSTRAP-2.
func TestBootstrapContractFollowsTheImage(t *testing.T) {
	for _, test := range []struct {
		contract bootstrap.Contract
		publish  string
		document bool
	}{
		{"", "", false},
		{"", "202608.02.0", true},
		{bootstrap.Environment, "202608.02.0", false},
		{bootstrap.Structured, "", true},
	} {
		guest := bootRecorder{make(chan azureemulator.VM, 1)}
		r := newRegion(t, azureemulator.Options{SystemNodes: -1, Guest: guest}).small()
		r.options.BootstrapContract = test.contract
		if test.publish != "" {
			if err := r.PublishImage("", test.publish); err != nil {
				t.Fatal(err)
			}
		}
		run(t, r.provider(t), claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
		m := <-guest.booted
		if got := bytes.HasPrefix(m.CustomData, []byte("MIME-Version: 1.0\r\n")); got != test.document {
			t.Errorf("contract %q, image %s: document %v", test.contract, m.ImageID, got)
		}
		payload, err := node.ReadPayload(t.Context(), m.CustomData)
		if err != nil || payload.Server != "karve.example:443" || payload.Kubelet.Labels["karpenter.sh/nodepool"] != "web" {
			t.Errorf("the VM read %s, %v, %v", payload.Server, payload.Kubelet.Labels, err)
		}
	}
}

// AKS reports a cluster's endpoint with port 443, which its images append to the name themselves:
// nodes get the host name only, or they would connect to NAME:443:443 and never join.
//
// Rule BOOTSTRAP-4.
func TestVMsAreToldTheHostOfTheAPIServer(t *testing.T) {
	const host = "prod-1b2c3d4e.hcp.eastus.azmk8s.io"
	for _, contract := range []bootstrap.Contract{bootstrap.Environment, bootstrap.Structured} {
		for _, endpoint := range []string{"https://" + host + ":443", "https://" + host} {
			guest := bootRecorder{make(chan azureemulator.VM, 1)}
			r := newRegion(t, azureemulator.Options{SystemNodes: -1, Guest: guest}).small()
			r.options.BootstrapContract, r.options.ClusterEndpoint = contract, endpoint
			run(t, r.provider(t), claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
			env, err := node.Environment(t.Context(), (<-guest.booted).CustomData, "")
			if err != nil {
				t.Fatal(err)
			}
			if env["API_SERVER_NAME"] != host {
				t.Errorf("%s, endpoint %s: the image's scripts see API_SERVER_NAME=%s", contract, endpoint, env["API_SERVER_NAME"])
			}
		}
	}
}

// run launches until the virtual machine runs. Errors that the fault may cause are retried, as a
// controller would.
func run(t *testing.T, p *azure.Provider, c provider.Claim) (provider.Instance, []provider.RefusedOffering) {
	t.Helper()
	var attempts []provider.RefusedOffering
	var last error
	for range 2000 {
		in, err := p.Launch(t.Context(), c)
		last = err
		attempts = append(attempts, in.Refused...)
		if errors.As(err, new(*provider.CapacityError)) {
			t.Fatal(err)
		}
		if err == nil && in.State == provider.Running {
			return in, attempts
		}
	}
	t.Fatalf("claim %s does not run; the last error is %v", c.Name, last)
	return provider.Instance{}, nil
}

func (r *region) wantMachines(t *testing.T, n int) {
	t.Helper()
	state := r.State()
	if len(state.VMs) != n || len(state.NICs) != n {
		t.Errorf("there are %d VMs and %d interfaces, want %d", len(state.VMs), len(state.NICs), n)
	}
}

func TestLostAnswerLaunchesOnce(t *testing.T) {
	for _, times := range []int{1, 10} { // within the SDK's retries, and beyond
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
			r.options.ClientOptions.Retry.RetryDelay = 1 // ns: nothing here needs time
			r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 503, Lose: true, Times: times})
			p := r.provider(t)
			c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_D8s_v5", "eastus-2"))
			in, _ := run(t, p, c)
			if in.Type != "Standard_D4s_v5" {
				t.Errorf("launched %s", in.Type)
			}
			r.wantMachines(t, 1)
		})
	}
}

func TestRestartLearnsWhyAVMFailed(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.stockOut(t, onDemand("Standard_D4s_v5", "eastus-1"), true)
	c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))
	if _, err := r.provider(t).Launch(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	restarted := r.provider(t)
	in, attempts := run(t, restarted, c)
	if in.Type != "Standard_E4s_v5" || len(attempts) == 0 || attempts[0].Code != "ZonalAllocationFailed" || attempts[0].Reason != "OutOfStock" {
		t.Errorf("launched %s after %+v", in.Type, attempts)
	}
	r.wantMachines(t, 1)
}

func TestThrottlingIsNotARefusal(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.fault(t, azureemulator.Fault{Method: "PUT", Path: vmPath, Status: 429, Code: "OperationNotAllowed", RetryAfterSeconds: 1200, Flat: true})
	p := r.provider(t)
	c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_D8s_v5", "eastus-1"))
	in, err := p.Launch(t.Context(), c)
	if err != nil || in.State != provider.Creating || in.RetryAfter.Minutes() != 20 || in.ProviderID != "" {
		t.Fatalf("throttled: %+v, %v", in, err)
	}
	if _, err := p.Launch(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/virtualMachines$", Status: 429, Code: "TooManyRequests", RetryAfterSeconds: 600})
	if in, err := p.Launch(t.Context(), c); err != nil || in.RetryAfter.Minutes() != 10 {
		t.Errorf("throttled while looking: %+v, %v", in, err)
	}
	if in, _ := run(t, p, c); in.Type != "Standard_D4s_v5" {
		t.Errorf("throttling made the launch go on to %s", in.Type)
	}
}

// A list of a thousand virtual machines takes seconds. A claim without a request does not wait
// for it, and a virtual machine that another process has requested meanwhile is found all the
// same.
//
// Rule VM-1.
func TestFirstLaunchWaitsForNoList(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p, other := r.provider(t), r.provider(t)
	first, second, third := claim("a", onDemand("Standard_D4s_v5", "eastus-1")), claim("b", onDemand("Standard_D4s_v5", "eastus-1")), claim("c", onDemand("Standard_D4s_v5", "eastus-1"))
	if _, err := p.Launch(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Launch(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/virtualMachines$", Status: 429, Code: "TooManyRequests", RetryAfterSeconds: 600})
	if in, err := p.Launch(t.Context(), second); err != nil || in.ProviderID == "" {
		t.Errorf("it was not launched at once: %+v, %v", in, err)
	}
	if in, err := p.Launch(t.Context(), third); err != nil || in.State != provider.Creating {
		t.Errorf("launched by another process: %+v, %v", in, err)
	}
	for _, c := range []provider.Claim{first, second, third} {
		run(t, p, c)
	}
	r.wantMachines(t, 3)
}

// After a quiet hour the list is old. An urgent launch does not wait for another, and creates
// nothing twice.
//
// Rule VM-1.
func TestUrgentLaunchAcceptsAnOldList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small().watched(func(req *http.Request) {
			if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/virtualMachines") {
				lists++
			}
		})
		p, other := r.provider(t), r.provider(t)
		if _, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		urgent, second := claim("b", onDemand("Standard_D4s_v5", "eastus-1")), claim("c", onDemand("Standard_D4s_v5", "eastus-1"))
		urgent.Urgent, second.Urgent = true, true
		if _, err := other.Launch(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		before := lists
		if in, err := p.Launch(t.Context(), urgent); err != nil || in.ProviderID == "" || lists != before {
			t.Errorf("launched %q after %d lists, want one at once: %v", in.ProviderID, lists-before, err)
		}
		for _, c := range []provider.Claim{urgent, second} {
			if _, err := r.up(t, p, c); err != nil {
				t.Error(err)
			}
		}
		r.wantMachines(t, 3)
	})
}

func TestQuotaRefusalGoesToTheNextFamily(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	if _, err := p.Catalog(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	// Another user uses up the quota without karve's knowledge.
	if err := r.Capacity.SetQuota("standardDSv5Family", 3); err != nil {
		t.Fatal(err)
	}
	c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_D4s_v5", "eastus-2"), onDemand("Standard_D4as_v5", "eastus-1"))
	in, attempts := run(t, p, c)
	if in.Type != "Standard_D4as_v5" {
		t.Errorf("launched %s", in.Type)
	}
	if len(attempts) < 2 || attempts[0].Reason != "Quota" || attempts[1].Reason != "Quota" {
		t.Errorf("attempts %+v", attempts)
	}
	if n := r.Ledger().ByOperation["VirtualMachines.CreateOrUpdate"]; n != 2 {
		t.Errorf("%d creations were requested; one zone's refusal holds in the other", n)
	}
}

func TestKnownQuotaIsNotOverrun(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, Quota: map[string]int{"standardDSv5Family": 8}}).small()
	p := r.provider(t)
	var failed int
	for i := range 5 {
		_, err := p.Launch(t.Context(), claim(fmt.Sprint("claim-", i), onDemand("Standard_D4s_v5", "eastus-1")))
		var capacity *provider.CapacityError
		if errors.As(err, &capacity) {
			failed++
			if capacity.Refused[0].Reason != "Quota" {
				t.Errorf("refused for %s", capacity.Refused[0].Reason)
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if failed != 3 {
		t.Errorf("%d of 5 launches were refused; 8 vCPUs hold 2 VMs of 4", failed)
	}
	if n := r.Ledger().ByOperation["VirtualMachines.CreateOrUpdate"]; n != 2 {
		t.Errorf("Azure was asked %d times; the quota was known", n)
	}
}

// Rule LAUNCH-5.
func TestForeignVMIsLeftAlone(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"))
	in, _ := run(t, p, c)
	client, err := armcompute.NewVirtualMachinesClient(r.SubscriptionID(), r.options.Credential, r.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	poller, err := client.BeginUpdate(t.Context(), r.NodeResourceGroup(), in.Name, armcompute.VirtualMachineUpdate{Tags: map[string]*string{"owner": to.Ptr("somebody")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Launch(t.Context(), c); err == nil || errors.As(err, new(*provider.CapacityError)) {
		t.Errorf("launching over it: %v", err)
	}
	if err := p.Terminate(t.Context(), in.ProviderID); err == nil {
		t.Error("it was terminated")
	}
	if err := p.TerminateByClaim(t.Context(), c); err == nil {
		t.Error("it was abandoned")
	}
	if list, err := p.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("it is listed as ours: %v, %v", list, err)
	}
	r.wantMachines(t, 1)
}

// Rule CATALOG-3.
func TestBrokenListIsNoList(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, PageSize: 2}).small()
	p := r.provider(t)
	for i := range 3 {
		run(t, p, claim(fmt.Sprint("claim-", i), onDemand("Standard_D2s_v5", "eastus-1")))
	}
	if list, err := p.List(t.Context()); err != nil || len(list) != 3 {
		t.Fatalf("list: %d VMs, %v", len(list), err)
	}
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/virtualMachines$", Skip: 1, Status: 403, Code: "AuthorizationFailed"})
	if list, err := p.List(t.Context()); err == nil {
		t.Errorf("a list whose second page failed has %d VMs and no error", len(list))
	}
}

func TestSubnetFull(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, SubnetPrefix: "10.0.0.0/29"}).small() // three addresses
	p := r.provider(t)
	for i := range 3 {
		run(t, p, claim(fmt.Sprint("claim-", i), onDemand("Standard_D2s_v5", "eastus-1")))
	}
	_, err := p.Launch(t.Context(), claim("late", onDemand("Standard_D2s_v5", "eastus-1"), onDemand("Standard_E2s_v5", "eastus-2")))
	var capacity *provider.CapacityError
	if !errors.As(err, &capacity) || len(capacity.Refused) != 2 || capacity.Refused[0].Reason != "Network" || capacity.Refused[1].Reason != "Network" {
		t.Errorf("with no address left: %v", err)
	}
	r.wantMachines(t, 3)
}

func TestStalePoolIsLookedUpAgain(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	run(t, p, claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
	if err := r.Network.SetBackendPools("kubernetes", "aksOutboundBackendPool", "new"); err != nil {
		t.Fatal(err)
	}
	run(t, p, claim("b", onDemand("Standard_D2s_v5", "eastus-1")))
	r.wantMachines(t, 2)
}

func TestSpotEvictionIsSeen(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	c := claim("a", spot("Standard_D4s_v5", "eastus-1"))
	in, _ := run(t, p, c)
	if err := r.VMs.Evict(in.Name, 0); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		if _, err := p.Get(t.Context(), in.ProviderID); errors.Is(err, provider.ErrNotFound) {
			r.wantMachines(t, 0)
			return
		}
	}
	t.Error("the evicted VM is still there")
}

func TestDeallocatedVMIsStopped(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	in, _ := run(t, p, claim("a", onDemand("Standard_D4s_v5", "0")))
	if in.Zone != "0" {
		t.Errorf("the VM without a zone is in %q", in.Zone)
	}
	client, err := armcompute.NewVirtualMachinesClient(r.SubscriptionID(), r.options.Credential, r.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	poller, err := client.BeginDeallocate(t.Context(), r.NodeResourceGroup(), in.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Get(t.Context(), in.ProviderID); err != nil || got.State != provider.Stopped {
		t.Errorf("a deallocated VM is %s, %v", got.State, err)
	}
}

func TestVMCarriesWhatTheClassSays(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	c := class("1.36.3")
	c.Spec.OSDiskSizeGB, c.Spec.ImageFamily = to.Ptr(int32(60)), to.Ptr(v1beta1.ImageFamilyAzureLinux)
	c.Spec.Tags = map[string]string{"a/b": "c", "KARVE.dev_claim": "mine"}
	c.Spec.Security = &v1beta1.Security{EncryptionAtHost: to.Ptr(true), TrustedLaunch: &v1beta1.TrustedLaunch{VTPM: to.Ptr(true)}}
	r.class.Store(c)
	r.options.AdditionalTags = map[string]string{"env": "test", "A_B": "overridden"}
	p := r.provider(t)
	in, _ := run(t, p, claim("a", spot("Standard_D4ds_v5", "eastus-2")))

	client, err := armcompute.NewVirtualMachinesClient(r.SubscriptionID(), r.options.Credential, r.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	vm, err := client.Get(t.Context(), r.NodeResourceGroup(), in.Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]string{}
	for k, v := range vm.Tags {
		tags[k] = *v
	}
	want := map[string]string{
		"env": "test", "a_b": "c", "karve.dev_claim": "a", "karve.dev_claim-uid": "uid-of-a", "karve.dev_cluster": "karve", "karve.dev_class": "default",
		"karve.dev_class-hash": c.Hash(), "karve.dev_class-hash-version": "v3", "karve.dev_kubernetes-version": "1.36.3",
		"karpenter.azure.com_cluster": "karve", "karpenter.sh_nodepool": "web", "compute.aks.billing": "linux",
	}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	props := vm.Properties
	disk := props.StorageProfile.OSDisk
	if *disk.DiskSizeGB != 60 || disk.DiffDiskSettings == nil || *props.EvictionPolicy != "Delete" || *props.BillingProfile.MaxPrice != -1 {
		t.Errorf("disk %+v, eviction %v", disk, props.EvictionPolicy)
	}
	if s := props.SecurityProfile; !*s.EncryptionAtHost || *s.SecurityType != "TrustedLaunch" || !*s.UefiSettings.VTpmEnabled {
		t.Errorf("security profile %+v", s)
	}
	if !strings.Contains(in.ImageID, "/V3gen2TL/") {
		t.Errorf("the image is %s", in.ImageID)
	}
}

func TestNotReady(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	want := func(reason string, c provider.Claim, unsettled bool) {
		t.Helper()
		_, err := p.Launch(t.Context(), c)
		var notReady *provider.NotReadyError
		if !errors.As(err, &notReady) || notReady.Reason != reason || notReady.Unsettled != unsettled {
			t.Errorf("got %v, want a NotReadyError for %s, unsettled: %v", err, reason, unsettled)
		}
	}
	c := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
	r.class.Store(class(""))
	want("KubernetesVersionNotReady", c, false)
	unready := class("1.36.3")
	unready.SetFalse(v1beta1.ConditionTypeSubnetsReady, v1beta1.ReasonSubnetNotFound, "no such subnet")
	r.class.Store(unready)
	want("UnhealthyDependents", c, false)
	edited := class("1.36.3")
	edited.InitConditions()
	r.class.Store(edited)
	want(edited.Condition(v1beta1.ConditionTypeReady).Reason, c, true)
	c.Class = "nobody"
	want("NodeClassNotFound", c, false)
	r.wantMachines(t, 0)
}

// For a class that stops being ready, even if only because its spec was edited a moment ago, no
// more nodes are launched; nodes that were launched before come up.
func TestVMOutlivesItsClassBeingReady(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	c := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
	if _, err := p.Launch(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	unready := class("1.36.3")
	unready.SetFalse(v1beta1.ConditionTypeSubnetsReady, v1beta1.ReasonSubnetNotFound, "no such subnet")
	r.class.Store(unready)
	run(t, p, c)
	r.wantMachines(t, 1)
}

// The requests per node, for nodes launched and deleted together with others.
func TestRequestsPerNode(t *testing.T) {
	const n = 30
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	r.options.PollEvery = 0 // the default
	p := r.provider(t)
	if _, err := p.Catalog(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	before := r.Ledger()
	for i := range n {
		if _, err := p.Launch(t.Context(), claim(fmt.Sprint("claim-", i), onDemand("Standard_D2s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
	}
	after := r.Ledger()
	if writes := after.Writes - before.Writes; writes != n {
		t.Errorf("%d nodes took %d writes, want one each", n, writes)
	}
	if reads := after.Reads - before.Reads; reads > n {
		t.Errorf("%d nodes took %d reads: %v", n, reads, slices.Sorted(maps.Keys(after.ByOperation)))
	}
}

// leaveNIC creates an interface as a half-done creation would leave it.
func (r *region) leaveNIC(t *testing.T, name string, c provider.Claim) {
	t.Helper()
	client, err := armnetwork.NewInterfacesClient(r.SubscriptionID(), r.options.Credential, r.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]*string{"karve.dev_cluster": to.Ptr("karve"), "karve.dev_claim": to.Ptr(c.Name), "karve.dev_claim-uid": to.Ptr(c.UID)}
	if uid := r.options.ClusterUID; uid != "" {
		tags["karve.dev_cluster-uid"] = &uid
	}
	poller, err := client.BeginCreateOrUpdate(t.Context(), r.NodeResourceGroup(), name, armnetwork.Interface{
		Location: to.Ptr(r.Location()),
		Tags:     tags,
		Properties: &armnetwork.InterfacePropertiesFormat{IPConfigurations: []*armnetwork.InterfaceIPConfiguration{{
			Name: to.Ptr("ipconfig1"), Properties: &armnetwork.InterfaceIPConfigurationPropertiesFormat{Subnet: &armnetwork.Subnet{ID: to.Ptr(r.SubnetID())}},
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// A leftover that carries the virtual machine's name is deleted with it.
func TestTerminateTakesLeftoversAlong(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	p := r.provider(t)
	c := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
	in, _ := run(t, p, c)
	r.leaveNIC(t, in.Name+"-left", c)
	for range 2000 {
		if err := p.Terminate(t.Context(), in.ProviderID); errors.Is(err, provider.ErrNotFound) {
			r.wantMachines(t, 0)
			return
		}
	}
	t.Error("the VM is not gone")
}

// deleteVM deletes a virtual machine behind the provider's back.
func (r *region) deleteVM(t *testing.T, name string) {
	t.Helper()
	client, err := armcompute.NewVirtualMachinesClient(r.SubscriptionID(), r.options.Credential, r.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	poller, err := client.BeginDelete(t.Context(), r.NodeResourceGroup(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := poller.PollUntilDone(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// Kubernetes compares provider IDs letter by letter, and Azure's cloud provider writes the
// subscription in lower case: however the option is spelled, nodes find their NodeClaims. The
// same holds for a region given by its display name.
//
// Rule SETTING-5.
func TestSubscriptionInCapitals(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1, SubscriptionID: "5b1a0c6e-7d0f-4a6e-9c55-0d3c0a5e0abc"}).small()
	r.options.SubscriptionID = strings.ToUpper(r.SubscriptionID())
	r.options.Location = "East US"
	in, _ := run(t, r.provider(t), claim("a", onDemand("Standard_D2s_v5", "eastus-1")))
	if !strings.HasPrefix(in.ProviderID, "azure:///subscriptions/"+r.SubscriptionID()+"/") {
		t.Errorf("a VM in subscription %s has the provider ID %s", r.SubscriptionID(), in.ProviderID)
	}
}

func TestOptionsAreRefusedByName(t *testing.T) {
	_, err := azure.New(context.Background(), azure.Options{})
	for _, name := range []string{"Credential", "SubscriptionID", "Location", "ClusterName", "ClusterEndpoint", "CABundle", "NodeResourceGroup", "VNetSubnetID", "SSHPublicKey", "BootstrapToken", "Classes"} {
		if err == nil || !strings.Contains(err.Error(), "option "+name+" is required") {
			t.Errorf("nothing is said of %s: %v", name, err)
		}
	}
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	for name, spoil := range map[string]func(*azure.Options){
		"ClusterEndpoint":   func(o *azure.Options) { o.ClusterEndpoint = "karve.example" },
		"port 443 or none":  func(o *azure.Options) { o.ClusterEndpoint = "https://karve.example:6443" },
		"VNetSubnetID":      func(o *azure.Options) { o.VNetSubnetID = "/subscriptions/x" },
		"NetworkPlugin":     func(o *azure.Options) { o.NetworkPlugin = "kubenet" },
		"NetworkPluginMode": func(o *azure.Options) { o.NetworkPlugin, o.NetworkPluginMode = "none", "overlay" },
	} {
		o := r.options
		spoil(&o)
		if _, err := azure.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
