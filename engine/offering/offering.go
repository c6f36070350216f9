// SPDX-License-Identifier: Apache-2.0

// Package offering holds the instance types that can be launched, each with its offerings: a
// zone, a capacity type such as spot or on-demand, and a price. A provider fills in
// InstanceType and Offering. Catalog is the same, compiled into columns and bit sets, sorted
// by price, and immutable.
//
// The package knows no cloud: labels, quotas and names are opaque strings.
package offering

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/quantity"
)

// Capacity types, spelled as Karpenter's capacity-type label spells them.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
	Reserved = "reserved"
)

// Price is money per hour in nano-dollars (1e-9 USD/h). It is exact, so sums do not depend
// on their order.
type Price int64

// USDPerHour makes a Price of dollars per hour. It returns an error for NaN, infinities,
// negative prices and prices above a billion dollars.
func USDPerHour(usd float64) (Price, error) {
	if math.IsNaN(usd) || usd < 0 || usd > 1e9 {
		return 0, fmt.Errorf("price %v USD/h is not a price", usd)
	}
	return Price(math.Round(usd * 1e9)), nil
}

// USD is the price in dollars per hour.
func (p Price) USD() float64 { return float64(p) / 1e9 }

// Add is p + o, or the largest Price if the sum overflows: an absurd sum must not wrap
// around to a low price.
func (p Price) Add(o Price) Price {
	if o > 0 && p > math.MaxInt64-o {
		return math.MaxInt64
	}
	return p + o
}

// String renders the price in dollars: 0.1920.
func (p Price) String() string { return fmt.Sprintf("%.4f", p.USD()) }

// InstanceType is one instance type of a cloud region, as seen by one node class.
type InstanceType struct {
	Name string
	// Labels are the values that a node of this type may have, by label key. Most keys have one
	// value; with several, the launch can choose. A key that is missing will not be on the node.
	// Zone, capacity type and the type's own name come from Name and Offerings and need not be
	// repeated here.
	Labels map[string][]string
	// Capacity is what the node reports in total; Overhead is what the system reserves of it.
	// Pods can use Capacity − Overhead. Base units.
	Capacity, Overhead quantity.Amounts
	// SustainedCPU is how much of Capacity's cpu the type can use all the time, for a burstable
	// type; zero when it is all of it. NodePools count no more than that of it, unless they name
	// the type: a requirement of theirs on a label in NamedBy lists the type's value.
	SustainedCPU int64
	NamedBy      []string
	Offerings    []Offering
}

// Values lists the values that a node of this type may have of a label, without those that its
// offerings give it.
func (t *InstanceType) Values(key string) []string {
	if key == LabelInstanceType {
		return []string{t.Name}
	}
	return t.Labels[key]
}

// Offering is one way to launch an InstanceType.
type Offering struct {
	Zone         string // value of topology.kubernetes.io/zone
	CapacityType string // OnDemand, Spot or Reserved
	// Price is the whole price of a node: the instance and what it brings with it. Everything
	// compares it. Extras is the part of it that is not the instance, for instance a disk that is
	// billed by itself; from zero to Price.
	Price, Extras Price
	// Labels are the values that only this offering gives the node.
	Labels map[string][]string
	// QuotaUses is what one launch takes of the region's quotas.
	QuotaUses []QuotaUse
	// Fallback orders the offering after all others of the same price; an example is a VM
	// without a choice of zone. Its zone counts as a topology domain only for pods that can use no
	// other offering.
	Fallback bool
	// Unavailable says in words why the offering cannot be launched now; empty when it can.
	Unavailable string
}

// Ref names one offering of one type in a decision.
type Ref struct {
	Type, Zone, CapacityType string
	Price, Extras            Price // as in Offering
	Fallback                 bool
}

// Ref returns the Ref of the offering of the type with that name.
func (o *Offering) Ref(typeName string) Ref {
	return Ref{Type: typeName, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, Extras: o.Extras, Fallback: o.Fallback}
}

// ListPrice is the price of the instance alone, without what a node costs besides.
func (c Ref) ListPrice() Price { return c.Price - c.Extras }

// RotateZones returns the choices with the zones of each type at one price rotated by the
// key. So claims that may use any zone are spread over all of them, while one claim always
// gets the same order.
func RotateZones(choices []Ref, key string) []Ref {
	h := fnv.New32a()
	h.Write([]byte(key))
	turn := int(h.Sum32() & math.MaxInt32)
	out := slices.Clone(choices)
	for i := 0; i < len(out); {
		n := 1
		for i+n < len(out) && out[i+n].differsInZone(out[i]) {
			n++
		}
		for j := range n {
			out[i+j] = choices[i+(j+turn)%n]
		}
		i += n
	}
	return out
}

func (c Ref) differsInZone(o Ref) bool {
	c.Zone = o.Zone
	return c == o
}

// AddressQuota is the prefix of the names of quotas that count the free addresses of a
// subnet; the subnet's name follows.
const AddressQuota = "subnet:"

// QuotaUse takes Amount out of the quota of that name, for instance vCPUs out of the quota
// of a VM family.
type QuotaUse struct {
	Quota  string
	Amount int64
}
