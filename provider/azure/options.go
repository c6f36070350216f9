// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// Options describes the cluster to provision for. New returns an error that names every required
// field that is empty; the zero value of every other field works.
type Options struct {
	// Credential signs ARM calls. Required.
	Credential azcore.TokenCredential
	// ClientOptions configures the Azure clients; nil means the public cloud. Its transport also
	// fetches prices. A zero Retry gets settings that never block a call for long.
	ClientOptions *arm.ClientOptions

	// MayWrite is asked before each request that changes something in Azure, and before each repetition;
	// the request is not sent if it returns an error. Nil lets all pass.
	MayWrite func(context.Context) error

	SubscriptionID string // required
	TenantID       string
	Location       string // region name such as eastus; required
	ClusterName    string // required
	// ClusterUID distinguishes clusters of one name in one resource group, for instance the UID of the
	// namespace kube-system. Empty means that they are not distinguished.
	ClusterUID string
	// ClusterEndpoint is the URL at which nodes reach the API server, on port 443. Required.
	ClusterEndpoint string
	// CABundle is the CA certificate of the API server in PEM. Required.
	CABundle []byte
	// NodeResourceGroup is the resource group of the cluster's nodes. Required.
	NodeResourceGroup string
	// VNetSubnetID is the subnet of node classes that name none. Required.
	VNetSubnetID string
	// VNetGUID is the GUID of the virtual network of VNetSubnetID. When it is empty and nodes
	// need it, karve reads it from Azure, which takes permission to read the network.
	VNetGUID string

	// SecurityGroupID is the network security group of nodes in networks that AKS does not
	// manage. Empty means the one in NodeResourceGroup that has the name AKS gives.
	SecurityGroupID string
	// LoadBalancers are the load balancers in NodeResourceGroup whose backend pools nodes join;
	// empty means none. Nil means AKS's: kubernetes and kubernetes-internal.
	LoadBalancers []string

	// NetworkPlugin is azure or none. Empty means azure with overlay and the cilium dataplane;
	// NetworkPluginMode and NetworkDataplane are ignored then.
	NetworkPlugin     string
	NetworkPluginMode string // overlay, or empty for node subnet
	NetworkDataplane  string // azure, cilium or empty
	NetworkPolicy     string
	DNSServiceIP      string // zero means 10.0.0.10

	// NodeIdentities are resource IDs of user-assigned identities that nodes get.
	NodeIdentities          []string
	KubeletIdentityClientID string
	SSHPublicKey            string // required
	AdminUsername           string // zero means azureuser

	// BootstrapToken returns the token that kubelets join with ("abcdef.0123456789abcdef"). It
	// is called at every launch, so that a rotated token is used. Required.
	BootstrapToken func(context.Context) (string, error)

	// BootstrapContract selects the form in which a virtual machine gets the settings of its
	// node; empty means bootstrap.Auto: the contract that suits the image.
	BootstrapContract bootstrap.Contract
	// CustomCloud describes a cloud that is neither public nor sovereign to the nodes. The zero
	// value passes nothing to them.
	CustomCloud bootstrap.Cloud

	// VMMemoryOverheadPercent is the share of a VM size's advertised memory that firmware and
	// kernel are expected to take, used until karve has seen a node of that size. From 0 up to 1.
	// Nil means 0.075.
	VMMemoryOverheadPercent *float64
	// AdditionalTags are set on every resource; tags of a node class take precedence.
	AdditionalTags map[string]string
	// NodeFeePerMonth is what agents that are billed by the node cost, in dollars per node and
	// month of 730 hours; it counts in the price of every node.
	NodeFeePerMonth float64
	// PricesURL is the URL of the retail price list. Empty means the public one.
	PricesURL string
	// Classes reads AKSNodeClasses. Required.
	Classes Classes

	// Patience is how long a catalog or a launch waits for data that it can do without, such as
	// prices; zero means 5 seconds.
	Patience time.Duration
	// PollEvery is the maximum age of the shared list of virtual machines while launches wait.
	// Zero means 2s while the list has at most three pages, and 5s above.
	PollEvery time.Duration
	// ImagesEvery is how long a list of image versions is cached. Zero means 1h: AKS publishes
	// weekly.
	ImagesEvery time.Duration
	// SharedGallery makes nodes start from the galleries that AKS shares with single customers,
	// which have FIPS images, instead of the community galleries.
	SharedGallery image.SharedGallery
	// DiskEncryptionSetID is the disk encryption set for OS disks; empty means keys that Azure
	// manages.
	DiskEncryptionSetID string
	// AKSMachines says which nodes AKS creates; the zero value: none.
	AKSMachines AKSMachines
	// ARMShare is the share of the subscription's ARM request bursts that karve may use, above 0
	// and up to 1. Zero means 0.5: the rest is left to other clients.
	ARMShare float64
	// ARMPace is how many times faster than Azure's the rate limits of a simulated Azure refill;
	// infinite when it has none. Zero means 1.
	ARMPace float64
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger
	// Panics receives the panics of goroutines that the provider starts; nil recovers nothing.
	Panics *panics.Reporter
}

// AKSMachines says which nodes AKS creates itself, in an agent pool of mode Machines. Without a
// pool karve sees the machines of such a pool but cannot delete them.
type AKSMachines struct {
	// Pool is the agent pool; it must exist.
	Pool string
	// ResourceGroup is the resource group of the cluster, not the one of its nodes. Required
	// with a pool.
	ResourceGroup string
	// CreateNodes makes AKS create new nodes. Without it Compute creates them, and existing AKS
	// machines are still listed and deleted.
	CreateNodes bool
	// Batching combines the creations of several machines into one request, and their deletions
	// likewise.
	Batching Batching
}

// Batching says how long requests wait to be sent as one. The zero value sends each at once.
type Batching struct {
	// Idle is how long a request waits for the next one, MaxWait how long any request waits at all.
	// Zero means 1s and 5s.
	Idle, MaxWait time.Duration
	// Size is how many machines one request creates or deletes, up to AKS's 50. Zero means 1:
	// each request is sent at once.
	Size int
}

// MostInBatch is the maximum number of machines that AKS creates with one request.
const MostInBatch = 50

func (b Batching) complete() Batching {
	return Batching{Idle: cmp.Or(b.Idle, time.Second), MaxWait: cmp.Or(b.MaxWait, 5*time.Second), Size: cmp.Or(b.Size, 1)}
}

func (m AKSMachines) malformed() error {
	b := m.Batching
	switch {
	case m.CreateNodes && m.Pool == "":
		return errors.New("option AKSMachines.Pool is required for AKS to create VMs")
	case m.Pool != "" && m.ResourceGroup == "":
		return errors.New("option AKSMachines.ResourceGroup is required with a pool")
	case b.Size < 1 || b.Size > MostInBatch:
		return fmt.Errorf("option AKSMachines.Batching.Size: %d is not between 1 and %d", b.Size, MostInBatch)
	case b.Idle < 0 || b.MaxWait < b.Idle:
		return fmt.Errorf("option AKSMachines.Batching: %v is no time to wait, or more than %v", b.Idle, b.MaxWait)
	}
	return nil
}

// Classes reads node classes.
type Classes interface {
	// AKSNodeClass returns the node class, or ErrClassNotFound.
	AKSNodeClass(ctx context.Context, name string) (*v1beta1.AKSNodeClass, error)
}

// ErrClassNotFound reports that no AKSNodeClass has the given name.
var ErrClassNotFound = errors.New("AKSNodeClass not found")

// ClassesFunc is a function that implements Classes.
type ClassesFunc func(ctx context.Context, name string) (*v1beta1.AKSNodeClass, error)

// AKSNodeClass calls f.
func (f ClassesFunc) AKSNodeClass(ctx context.Context, name string) (*v1beta1.AKSNodeClass, error) {
	return f(ctx, name)
}

const publicPrices = "https://prices.azure.com/api/retail/prices"

func (o *Options) complete() error {
	if err := o.missing(); err != nil {
		return err
	}
	if o.NetworkPlugin == "" {
		o.NetworkPlugin, o.NetworkPluginMode, o.NetworkDataplane = network.PluginAzure, network.ModeOverlay, network.DataplaneCilium
	}
	o.Patience = cmp.Or(o.Patience, 5*time.Second)
	o.AdminUsername = cmp.Or(o.AdminUsername, "azureuser")
	o.DNSServiceIP = cmp.Or(o.DNSServiceIP, "10.0.0.10")
	if o.VMMemoryOverheadPercent == nil {
		o.VMMemoryOverheadPercent = to.Ptr(0.075)
	}
	o.PricesURL = cmp.Or(o.PricesURL, publicPrices)
	if o.LoadBalancers == nil {
		o.LoadBalancers = []string{"kubernetes", "kubernetes-internal"}
	}
	o.ImagesEvery = cmp.Or(o.ImagesEvery, time.Hour)
	o.ARMShare = cmp.Or(o.ARMShare, 0.5)
	o.ARMPace = cmp.Or(o.ARMPace, 1)
	o.AKSMachines.Batching = o.AKSMachines.Batching.complete()
	o.Location = strings.ReplaceAll(strings.ToLower(o.Location), " ", "") // East US is eastus
	o.SubscriptionID = strings.ToLower(o.SubscriptionID)                  // as in the provider IDs of nodes
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o.malformed()
}

// missing returns one error that names every required option that is empty.
func (o *Options) missing() error {
	var errs []error
	require := func(name string, given bool) {
		if !given {
			errs = append(errs, fmt.Errorf("option %s is required", name))
		}
	}
	require("Credential", o.Credential != nil)
	require("SubscriptionID", o.SubscriptionID != "")
	require("Location", o.Location != "")
	require("ClusterName", o.ClusterName != "")
	require("ClusterEndpoint", o.ClusterEndpoint != "")
	require("CABundle", len(o.CABundle) > 0)
	require("NodeResourceGroup", o.NodeResourceGroup != "")
	require("VNetSubnetID", o.VNetSubnetID != "")
	require("SSHPublicKey", o.SSHPublicKey != "")
	require("BootstrapToken", o.BootstrapToken != nil)
	require("Classes", o.Classes != nil)
	return errors.Join(errs...)
}

func (o *Options) malformed() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := bootstrap.ServerName(o.ClusterEndpoint)
	refuse(err != nil, "option ClusterEndpoint: %v", err)
	_, err = network.ParseSubnetID(o.VNetSubnetID)
	refuse(err != nil, "option VNetSubnetID: %v", err)
	_, err = network.ParseSecurityGroupID(o.SecurityGroupID)
	refuse(o.SecurityGroupID != "" && err != nil, "option SecurityGroupID: %v", err)
	refuse(o.NetworkPlugin != network.PluginAzure && o.NetworkPlugin != network.PluginNone, "option NetworkPlugin: %q is neither azure nor none", o.NetworkPlugin)
	refuse(o.NetworkPluginMode != "" && o.NetworkPluginMode != network.ModeOverlay, "option NetworkPluginMode: %q is neither overlay nor empty", o.NetworkPluginMode)
	refuse(o.NetworkPlugin == network.PluginNone && o.NetworkPluginMode != "", "option NetworkPluginMode must be empty when NetworkPlugin is none")
	_, err = offering.USDPerHour(o.NodeFeePerMonth)
	refuse(err != nil, "option NodeFeePerMonth: %v is not a price", o.NodeFeePerMonth)
	share := *o.VMMemoryOverheadPercent
	refuse(!(share >= 0 && share < 1), "option VMMemoryOverheadPercent: %v is not a share between 0 and 1", share)
	_, err = bootstrap.ParseContract(string(cmp.Or(o.BootstrapContract, bootstrap.Auto)))
	refuse(err != nil, "option BootstrapContract: %v", err)
	refuse(o.Patience < 0, "option Patience: %v is negative", o.Patience)
	refuse(o.PollEvery < 0, "option PollEvery: %v is negative", o.PollEvery)
	refuse(!(o.ARMShare > 0 && o.ARMShare <= 1), "option ARMShare: %v is not a share above 0 and up to 1", o.ARMShare)
	refuse(!(o.ARMPace > 0), "option ARMPace: %v is not a positive number", o.ARMPace)
	refuse(o.ImagesEvery < 0, "option ImagesEvery: %v is negative", o.ImagesEvery)
	errs = append(errs, o.SharedGallery.Validate(!o.AKSMachines.CreateNodes), o.AKSMachines.malformed())
	if o.DiskEncryptionSetID != "" {
		set, err := parseEncryptionSetID(o.DiskEncryptionSetID)
		refuse(err != nil, "option DiskEncryptionSetID: %v", err)
		refuse(err == nil && !strings.EqualFold(set.subscription, o.SubscriptionID), "option DiskEncryptionSetID: subscription %s is not the one that VMs are in", set.subscription)
	}
	return errors.Join(errs...)
}

func (o *Options) env() cached.Env {
	return cached.Env{Now: o.Now, Patience: o.Patience, Panics: o.Panics}
}

func (o *Options) cni() network.CNI {
	return network.CNI{Plugin: o.NetworkPlugin, Mode: o.NetworkPluginMode, Dataplane: o.NetworkDataplane, Policy: o.NetworkPolicy}
}

func (o *Options) network(own network.SubnetID) network.Config {
	return network.Config{
		Subscription: o.SubscriptionID, Group: o.NodeResourceGroup, ClusterSubnet: own, VNetGUID: o.VNetGUID,
		SecurityGroup: o.SecurityGroupID, LoadBalancers: o.LoadBalancers, CNI: o.cni(),
	}
}
