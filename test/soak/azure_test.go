// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/test/scarcity"
)

// The provider for Azure holds no more after hundreds of node classes and VMs than after
// half of them: catalogs, subnets, refusals and what it knows of VMs go with them.
//
// Rule MEMORY-2.
func TestAzureProviderForgetsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		a := newRegion(t, ctx)
		running := make(chan struct{})
		go func() {
			defer close(running)
			_ = a.cloud.Run(ctx) // ends with the context
		}()
		soak{
			half: perHalf(40), bytes: 4 << 20,
			roots:   []any{a.cloud},
			skipped: []reflect.Type{reflect.TypeFor[*arm.Client](), reflect.TypeFor[azcore.TokenCredential](), reflect.TypeFor[azure.Options]()},
			slack:   map[string]int{"ratelimit.Buckets.each": 1000, "azure.creationTimes.took": 200, "ratelimit.tally.": 200, "bootstrap.": 4 << 20},
			live:    a.live,
			rest: func() {
				for range 30 {
					time.Sleep(time.Hour)
					a.catalog("resident")
				}
			},
		}.check(t)
		stop()
		<-running
		if err := a.azure.Close(); err != nil {
			t.Error(err)
		}
	})
}

// region is an emulated Azure with a provider that launches VMs there.
type region struct {
	t       *testing.T
	r       *rand.Rand
	azure   *azureemulator.Server
	cloud   *azure.Provider
	classes map[string]*v1beta1.AKSNodeClass
}

func newRegion(t *testing.T, ctx context.Context) *region {
	t.Helper()
	a := &region{t: t, r: rand.New(rand.NewPCG(*seed, 352)), classes: map[string]*v1beta1.AKSNodeClass{}}
	var err error
	if a.azure, err = azureemulator.New(ctx, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: *seed, Sizes: []string{"Standard_D2s_v5", "Standard_D4s_v5", "Standard_D8s_v5", "Standard_E4s_v5"}}); err != nil {
		t.Fatal(err)
	}
	credential, err := a.azure.Credential()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := scarcity.Authority()
	if err != nil {
		t.Fatal(err)
	}
	options := *a.azure.ClientOptions()
	options.Transport = a.azure.InProcess()
	a.cloud, err = azure.New(ctx, azure.Options{
		Credential: credential, ClientOptions: &options, SubscriptionID: a.azure.SubscriptionID(), Location: a.azure.Location(), ClusterName: "karve",
		ClusterEndpoint: "https://karve.example:443", CABundle: authority, NodeResourceGroup: a.azure.NodeResourceGroup(), VNetSubnetID: a.azure.SubnetID(),
		SSHPublicKey: "ssh-ed25519 AAAA test", PricesURL: a.azure.URL() + "/api/retail/prices", ARMShare: 1,
		BootstrapToken: func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes: azure.ClassesFunc(func(_ context.Context, name string) (*v1beta1.AKSNodeClass, error) {
			if class := a.classes[name]; class != nil {
				return class, nil
			}
			return nil, azure.ErrClassNotFound
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.class("resident")
	return a
}

func (a *region) class(name string) *v1beta1.AKSNodeClass {
	version := "1.36.3"
	class := &v1beta1.AKSNodeClass{Status: v1beta1.AKSNodeClassStatus{KubernetesVersion: &version}}
	class.Name = name
	a.classes[name] = class
	return class
}

// catalog is what a class offers, asked for as the controllers do.
func (a *region) catalog(class string) []offering.InstanceType {
	s, err := a.cloud.Catalog(a.t.Context(), class)
	if err != nil {
		a.t.Fatalf("the catalog of class %s: %v", class, err)
	}
	return s.Types
}

// live makes a class, in a subnet of its own now and then, and launches VMs for it; some of
// them are refused. In the end all of them go, one without anybody looking after it.
func (a *region) live(generation int) {
	name := fmt.Sprintf("g%d", generation)
	class := a.class(name)
	if generation%3 == 0 {
		subnet, err := a.azure.Network.AddSubnet("network-"+name, "network-"+name, "nodes-"+name, "10.9.0.0/24")
		if err != nil {
			a.t.Fatal(err)
		}
		class.Spec.VNETSubnetID = &subnet
	}
	types := a.catalog(name)
	if generation%4 == 0 {
		if err := a.azure.Inject(azureemulator.NamedFault{Name: "PolicyDenied", Times: 1}); err != nil {
			a.t.Fatal(err)
		}
	}
	var vms []provider.Instance
	for i := range 1 + a.r.IntN(3) {
		if in, ok := a.launch(fmt.Sprintf("%s-%d", name, i), name, types[a.r.IntN(len(types))]); ok {
			vms = append(vms, in)
		}
	}
	for i, in := range vms {
		for ends := time.Now().Add(20 * time.Minute); ; time.Sleep(5 * time.Second) {
			err := a.cloud.Terminate(a.t.Context(), in.ProviderID)
			if errors.Is(err, provider.ErrNotFound) || err == nil && i == 0 {
				break
			}
			if time.Now().After(ends) {
				a.t.Fatalf("VM %s does not end: %v", in.ProviderID, err)
			}
		}
	}
	time.Sleep(2 * time.Minute)
	if _, err := a.cloud.List(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	delete(a.classes, name)
}

// launch launches a VM, as the lifecycle controller does; it may be refused.
func (a *region) launch(name, class string, of offering.InstanceType) (provider.Instance, bool) {
	claim := provider.Claim{Name: name, UID: "uid-" + name, Pool: "pool-" + class, Class: class}
	for i := range of.Offerings {
		o := &of.Offerings[i]
		if o.Unavailable == "" {
			claim.Offerings = append(claim.Offerings, offering.Ref{Type: of.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Fallback: o.Fallback})
		}
	}
	for ends := time.Now().Add(10 * time.Minute); time.Now().Before(ends); time.Sleep(5 * time.Second) {
		in, err := a.cloud.Launch(a.t.Context(), claim)
		claim.LaunchState = in.LaunchState
		switch {
		case err == nil && in.State == provider.Running:
			return in, true
		case errors.As(err, new(*provider.CapacityError)) || errors.As(err, new(*provider.NotReadyError)):
			if err := a.cloud.TerminateByClaim(a.t.Context(), claim); err != nil && !errors.Is(err, provider.ErrNotFound) {
				a.t.Logf("giving up %s: %v", name, err)
			}
			return in, false
		}
	}
	a.t.Fatalf("VM %s is never made", name)
	return provider.Instance{}, false
}
