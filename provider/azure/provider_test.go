package azure_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/azure/emulator"
	"github.com/karve-dev/karve/provider/providertest"
)

// region is an emulated Azure and the options to use it with.
type region struct {
	*emulator.Server
	options azure.Options
	class   atomic.Pointer[v1beta1.AKSNodeClass]
}

func newRegion(t *testing.T, opts emulator.Options) *region {
	t.Helper()
	server, err := emulator.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.CheckInvariants(); err != nil {
			t.Errorf("the cloud is inconsistent: %v", err)
		}
		server.Close()
	})
	credential, err := server.Credential()
	if err != nil {
		t.Fatal(err)
	}
	r := &region{Server: server}
	r.class.Store(class("1.36.3"))
	r.options = azure.Options{
		Credential:        credential,
		ClientOptions:     server.ClientOptions(),
		SubscriptionID:    server.SubscriptionID(),
		Location:          server.Location(),
		ClusterName:       "karve",
		ClusterEndpoint:   "https://karve.example:6443",
		CABundle:          server.CACertPEM(),
		NodeResourceGroup: server.NodeResourceGroup(),
		VNetSubnetID:      server.SubnetID(),
		SSHPublicKey:      "ssh-ed25519 AAAA test",
		PricesURL:         server.URL() + "/api/retail/prices",
		PollEvery:         time.Nanosecond, // nothing here is worth waiting for
		BootstrapToken:    func(context.Context) (string, error) { return "abcdef.0123456789abcdef", nil },
		Classes: azure.ClassesFunc(func(_ context.Context, name string) (*v1beta1.AKSNodeClass, error) {
			if name != "default" {
				return nil, azure.ErrClassNotFound
			}
			return r.class.Load(), nil
		}),
	}
	return r
}

func class(version string) *v1beta1.AKSNodeClass {
	c := &v1beta1.AKSNodeClass{}
	c.Name = "default"
	c.Status.KubernetesVersion = &version
	return c
}

func (r *region) provider(t *testing.T) *azure.Provider {
	t.Helper()
	p, err := azure.New(t.Context(), r.options)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *region) stockOut(t *testing.T, c offer.Choice, late bool) {
	t.Helper()
	o := emulator.Stockout{Size: c.Type, Zone: strings.TrimPrefix(c.Zone, r.Location()+"-"), Mode: emulator.SkuNotAvailable}
	if c.Zone == "0" {
		o.Zone = "regional"
	}
	if late {
		o.Mode = ""
	}
	if err := r.AddStockout(o); err != nil {
		t.Fatal(err)
	}
}

func TestProviderLaws(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		r := newRegion(t, emulator.Options{SystemNodes: -1})
		return providertest.Harness{
			Class:    "default",
			Open:     func(t *testing.T) provider.Provider { return r.provider(t) },
			StockOut: r.stockOut,
			Residue:  r.residue,
			Pause:    func(time.Duration) {},
		}
	})
}

// residue is everything in the node resource group that was not there at first.
func (r *region) residue(t *testing.T) []string {
	t.Helper()
	state := r.State()
	var names []string
	for _, vm := range state.VMs {
		names = append(names, "machine "+vm.Name)
	}
	for _, nic := range state.NICs {
		names = append(names, "interface "+nic.Name)
	}
	for _, disk := range state.Disks {
		names = append(names, "disk "+disk)
	}
	return names
}
