// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"time"
)

// Options say which Azure to emulate. The zero value works: see the fields.
type Options struct {
	// Addr is where to listen. Empty means 127.0.0.1:0, a free port.
	Addr string
	// Dir receives ca.pem, token and azure.json, for other processes to find
	// the emulator by. Empty means a temporary folder that Close removes.
	Dir string

	// SubscriptionID, TenantID and ClientID default to fixed UUIDs.
	SubscriptionID, TenantID, ClientID string
	// Location is the one region where VMs can be created. Empty: "eastus".
	Location string
	// ClusterName names the AKS cluster whose node resource group exists from
	// the start. Empty: "karve".
	ClusterName string
	// NodeResourceGroup defaults to MC_<cluster>_<cluster>_<location>.
	NodeResourceGroup string
	// SubnetPrefix is the range of aks-subnet. Empty: 10.224.0.0/16.
	SubnetPrefix string
	// SystemNodes is how many VMs the cluster's system pool has at the
	// start. Zero means 2; negative means none. They run no Guest.
	SystemNodes int
	// SystemNodeSize defaults to Standard_D4s_v5.
	SystemNodeSize string
	// MachinesPool names the agent pool in which AKS makes single machines. Empty: "machines".
	MachinesPool string

	// Seed makes latencies, ids and names repeatable for a repeated sequence
	// of requests.
	Seed uint64
	// TimeScale stretches every delay: 1 is Azure's own pace, 0.1 ten times as
	// fast, 0 no delay at all.
	TimeScale float64
	// Latency are the delays at TimeScale 1. Zero distributions take defaults.
	Latency Latency

	// Quota limits cores by VM family, in vCPUs, letter case ignored. A family
	// that is not named has DefaultFamilyCores (zero: 3000).
	Quota              map[string]int
	DefaultFamilyCores int
	// RegionalCores and LowPriorityCores cap all on-demand and all spot cores
	// together, VirtualMachines their number. Zero: 20000, 20000 and 25000.
	RegionalCores, LowPriorityCores, VirtualMachines int

	// Sizes are patterns with * and ?, letter case ignored, of the sizes that the region sells:
	// reading all that Azure has takes a client seconds. Empty: all.
	Sizes []string
	// Restrictions are sizes this subscription may not use.
	Restrictions []Restriction
	// Throttle enforces Compute's and Resource Manager's request limits.
	Throttle bool
	// PageSize is how many entries a listing of VMs, interfaces or
	// disks has per page. Zero: 100.
	PageSize int

	// Guest runs the machines. Nil: they boot and do nothing.
	Guest Guest
	// Log receives one line per change of a resource. Nil: nothing is logged.
	Log *slog.Logger
}

// Latency says how long things take.
type Latency struct {
	// Create is from the accepted request to the end of its operation; an
	// allocation that fails does so after a third of it. Median 25 s.
	Create Distribution
	// Boot is from there to the guest's first instruction. Median 35 s.
	Boot Distribution
	// Delete is a VM's removal. Median 20 s.
	Delete Distribution
	// Power is a deallocation or start. Median 15 s.
	Power Distribution
	// Network is a network interface's creation or removal. Median 1.5 s.
	Network Distribution
	// Extension is the installation of an extension. Median 12 s.
	Extension Distribution
	// Eviction is from simulateEviction to the notice. Median 10 s.
	Eviction Distribution
}

// Distribution is log-normal: most draws lie near Median, a few far above.
type Distribution struct {
	Median time.Duration
	// Sigma is the standard deviation of the logarithm: 0 is constant, 0.3
	// puts one draw in forty above 1.8 times the median.
	Sigma float64
}

// Restriction keeps the subscription from a size: in the whole region, or in
// Zones when there are any.
type Restriction struct {
	Size  string   `json:"size"`
	Zones []string `json:"zones,omitempty"`
	// Reason is NotAvailableForSubscription (also when empty) or QuotaId.
	Reason string `json:"reason,omitempty"`
}

// preemptNotice is how long before an eviction Azure announces it, and
// reservation how long an interface stays promised to the VM whose
// creation failed; both at TimeScale 1.
const (
	preemptNotice = 30 * time.Second
	reservation   = 180 * time.Second
)

// withDefaults fills what was left empty and refuses what cannot work.
func (o Options) withDefaults() (Options, error) {
	setString(&o.Addr, "127.0.0.1:0")
	setString(&o.SubscriptionID, "5b1a0c6e-7d0f-4a6e-9c55-0d3c0a5e0001")
	setString(&o.TenantID, "72d1c0de-3f5a-4b27-8f5e-0d3c0a5e0002")
	setString(&o.ClientID, "c11e17ed-2b8a-4f6d-a1b4-0d3c0a5e0003")
	setString(&o.Location, "eastus")
	setString(&o.ClusterName, "karve")
	setString(&o.NodeResourceGroup, fmt.Sprintf("MC_%s_%s_%s", o.ClusterName, o.ClusterName, o.Location))
	setString(&o.SubnetPrefix, "10.224.0.0/16")
	setString(&o.SystemNodeSize, "Standard_D4s_v5")
	setString(&o.MachinesPool, "machines")
	setInt(&o.SystemNodes, 2)
	setInt(&o.DefaultFamilyCores, 3000)
	setInt(&o.RegionalCores, 20000)
	setInt(&o.LowPriorityCores, 20000)
	setInt(&o.VirtualMachines, 25000)
	setInt(&o.PageSize, 100)
	o.Latency = o.Latency.withDefaults()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := validScale(o.TimeScale); err != nil {
		return o, err
	}
	return o, nil
}

func (l Latency) withDefaults() Latency {
	l.Create = l.Create.or(25*time.Second, 0.25)
	l.Boot = l.Boot.or(35*time.Second, 0.25)
	l.Delete = l.Delete.or(20*time.Second, 0.3)
	l.Power = l.Power.or(15*time.Second, 0.3)
	l.Network = l.Network.or(1500*time.Millisecond, 0.4)
	l.Extension = l.Extension.or(12*time.Second, 0.3)
	l.Eviction = l.Eviction.or(10*time.Second, 0.3)
	return l
}

func (d Distribution) or(median time.Duration, sigma float64) Distribution {
	if d.Median > 0 {
		return d
	}
	return Distribution{Median: median, Sigma: sigma}
}

func validScale(scale float64) error {
	if scale < 0 || math.IsNaN(scale) || math.IsInf(scale, 0) {
		return fmt.Errorf("time scale %v: it must be zero or a positive number", scale)
	}
	return nil
}

// clusterID is the eight digits AKS puts into the names of a cluster's network
// resources; here they follow from the cluster's name.
func (o Options) clusterID() string {
	h := fnv.New32a()
	h.Write([]byte(o.ClusterName))
	return fmt.Sprintf("%08d", h.Sum32()%100_000_000)
}

func setString(field *string, otherwise string) {
	if *field == "" {
		*field = otherwise
	}
}

func setInt(field *int, otherwise int) {
	if *field == 0 {
		*field = otherwise
	}
}
