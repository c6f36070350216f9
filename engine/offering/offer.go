// Package offering is what is on sale: machine types, each in some zones, as spot
// or on-demand, at a price. InstanceType and Offering are what a provider fills in; Catalog
// is the same compiled into columns and bit sets, sorted by price, immutable.
//
// It refuses to know any cloud: labels, budgets and names are opaque strings.
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

// Price is money per hour in nano-dollars (1e-9 USD/h): exact, so that sums do
// not depend on their order.
type Price int64

// USDPerHour makes a Price of dollars per hour. It refuses NaN, infinities,
// negative prices and prices above a billion dollars.
func USDPerHour(usd float64) (Price, error) {
	if math.IsNaN(usd) || usd < 0 || usd > 1e9 {
		return 0, fmt.Errorf("price %v USD/h is not a price", usd)
	}
	return Price(math.Round(usd * 1e9)), nil
}

// USD is the price in dollars per hour.
func (p Price) USD() float64 { return float64(p) / 1e9 }

// Add is p + o, or the most there is where that is more: a sum of prices that nobody
// can mean must not wrap around to a bargain.
func (p Price) Add(o Price) Price {
	if o > 0 && p > math.MaxInt64-o {
		return math.MaxInt64
	}
	return p + o
}

// String renders the price as people write it: 0.1920.
func (p Price) String() string { return fmt.Sprintf("%.4f", p.USD()) }

// InstanceType is one machine size of a cloud region, as seen by one node class.
type InstanceType struct {
	Name string
	// Labels are the values a node of this type may carry, by label key. Most
	// keys have one value; several mean that the launch can choose. A key that is
	// missing will not be on the node. Zone, capacity type and the type's own name
	// come from Name and Offers and need not be repeated here.
	Labels map[string][]string
	// Capacity is what the node reports in total; Overhead what the system keeps
	// for itself. Capacity − Overhead is what pods can use. Base units.
	Capacity, Overhead quantity.Amounts
	Offerings          []Offering
}

// Offering is one way to buy a InstanceType.
type Offering struct {
	Zone         string // value of topology.kubernetes.io/zone
	CapacityType string // OnDemand, Spot or Reserved
	Price        Price
	// Labels are the values that only this offer gives the node.
	Labels map[string][]string
	// Draws is what buying one takes out of the region's budgets (quota).
	QuotaUses []QuotaUse
	// Fallback puts the offer behind all others of the same price: a machine
	// without a choice of zone, say.
	Fallback bool
	// Unavailable says in words why this cannot be bought now; empty means it can.
	Unavailable string
}

// Ref names one offer of one type, as a decision hands it on.
type Ref struct {
	Type, Zone, CapacityType string
	Price                    Price
	Fallback                 bool
}

// RotateZones returns choices with the zones of each type at one price rotated by the
// key: claims that may go anywhere go everywhere, and one claim always gets the
// same order.
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

// AddressQuota begins the names of budgets that are not quota but the addresses left
// in a network; what follows is the network's name.
const AddressQuota = "subnet:"

// QuotaUse takes Amount out of the budget of that name, for instance vCPUs out of a
// VM family's quota.
type QuotaUse struct {
	Quota  string
	Amount int64
}
