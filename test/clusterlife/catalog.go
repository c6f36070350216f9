// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

const class = "default"

// size is an instance type: cores, GiB, and dollars an hour on demand.
type size struct {
	name  string
	cores int64
	gib   int64
	price float64
}

// sizes are Azure's general purpose, compute and memory families at prices near its own.
// Larger sizes are not strictly proportional, as in Azure.
var sizes = []size{
	{"D2as", 2, 8, 0.086}, {"D4as", 4, 16, 0.172}, {"D8as", 8, 32, 0.344}, {"D16as", 16, 64, 0.688},
	{"D2s", 2, 8, 0.096}, {"D4s", 4, 16, 0.192}, {"D8s", 8, 32, 0.384},
	{"F2s", 2, 4, 0.0846}, {"F4s", 4, 8, 0.169}, {"F8s", 8, 16, 0.338},
	{"E2as", 2, 16, 0.113}, {"E4as", 4, 32, 0.226}, {"E8as", 8, 64, 0.452},
}

// The system's reservation on every node, and the requests of the one DaemonSet.
const (
	systemMilli, systemMiB = 180, 1400
	daemonMilli, daemonMiB = 100, 128
	maxPods                = 110
)

// offeringKey is an offering.
type offeringKey struct{ instanceType, zone, capacityType string }

// catalog has the instance types and their prices and stock now, which change by events only.
type catalog struct {
	priceFactor map[offeringKey]float64 // of the usual price; absent means 1
	unavailable map[offeringKey]bool
	// failing are offerings in the catalog for which every launch finds no capacity.
	launchFails map[offeringKey]bool
	// silent are offerings whose instances start and never join.
	neverRegisters map[offeringKey]bool
	cached         []offering.InstanceType // as the engine sees them; nil when they must be made anew
	sizeOf         map[string]size
}

func newCatalog() *catalog {
	m := &catalog{priceFactor: map[offeringKey]float64{}, unavailable: map[offeringKey]bool{}, launchFails: map[offeringKey]bool{}, neverRegisters: map[offeringKey]bool{}, sizeOf: map[string]size{}}
	for _, s := range sizes {
		m.sizeOf[s.name] = s
	}
	return m
}

var zones = []string{"z1", "z2", "z3"}

// price is the current price of the offering, per hour.
func (m *catalog) price(d offeringKey) offering.Price {
	usd := m.sizeOf[d.instanceType].price
	if d.capacityType == offering.Spot {
		usd *= 0.3 + 0.05*float64(slices.Index(zones, d.zone))
	}
	if f, ok := m.priceFactor[d]; ok {
		usd *= f
	}
	p, err := offering.USDPerHour(usd)
	if err != nil {
		panic(fmt.Sprintf("clusterlife: price of %v: %v", d, err))
	}
	return p
}

// setPriceFactor changes the price of an offering, setUnavailable whether it has capacity.
func (m *catalog) setPriceFactor(d offeringKey, factor float64) {
	m.priceFactor[d], m.cached = factor, nil
}
func (m *catalog) setUnavailable(d offeringKey, soldOut bool) {
	m.unavailable[d], m.cached = soldOut, nil
}

// instanceTypes returns the catalog as the provider interface gives it to the engine.
func (m *catalog) instanceTypes() []offering.InstanceType {
	if m.cached != nil {
		return m.cached
	}
	for _, s := range sizes {
		t := offering.InstanceType{
			Name:     s.name,
			Labels:   map[string][]string{"family": {s.name[:1]}},
			Capacity: resources(s.cores*1000, s.gib*1024, maxPods),
			Overhead: resources(systemMilli, systemMiB, 0),
		}
		for _, z := range zones {
			for _, ct := range []string{offering.OnDemand, offering.Spot} {
				d := offeringKey{s.name, z, ct}
				o := offering.Offering{Zone: z, CapacityType: ct, Price: m.price(d)}
				if m.unavailable[d] {
					o.Unavailable = "no capacity"
				}
				t.Offerings = append(t.Offerings, o)
			}
		}
		m.cached = append(m.cached, t)
	}
	return m.cached
}

func resources(milli, mib, pods int64) quantity.Amounts {
	return quantity.Amounts{quantity.NameCPU: milli, quantity.NameMemory: mib << 20, quantity.NamePods: pods}
}

// daemon is the one DaemonSet: its pods run everywhere and are not simulated one by one.
func daemon() cluster.DaemonSet {
	return cluster.DaemonSet{
		PodRef: cluster.PodRef{Namespace: "kube-system", Name: "agent", UID: "agent"}, Requests: resources(daemonMilli, daemonMiB, 1),
		Tolerations: []cluster.Toleration{{Operator: "Exists"}},
	}
}
