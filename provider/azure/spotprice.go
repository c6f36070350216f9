package azure

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
)

// AnnotationSpotMaxPrice, on an AKSNodeClass, is the most that a spot machine of the class
// may cost: dollars an hour such as 0.25, or a share of what the size costs on demand such
// as 60%. Azure takes a machine back whose price rises above it.
const AnnotationSpotMaxPrice = "karve.dev/spot-max-price"

// A spotLimit is the most a spot machine may cost. The zero value is no limit but the
// price on demand, which Azure never exceeds.
type spotLimit struct {
	price offering.Price
	share float64
	// wrong says that somebody set a limit that nobody can read.
	wrong bool
}

// spotLimitOf reads the class's limit. One that cannot be meant is no reason to pay any
// price: no spot machine is bought until it is corrected.
func spotLimitOf(class *v1beta1.AKSNodeClass) (spotLimit, error) {
	text, given := class.Annotations[AnnotationSpotMaxPrice]
	if !given {
		return spotLimit{}, nil
	}
	if number, isShare := strings.CutSuffix(text, "%"); isShare {
		if percent, err := strconv.ParseFloat(number, 64); err == nil && percent > 0 && percent <= 100 {
			return spotLimit{share: percent / 100}, nil
		}
	} else if usd, err := strconv.ParseFloat(text, 64); err == nil && usd >= 0.00001 {
		if price, err := offering.USDPerHour(usd); err == nil && price > 0 {
			return spotLimit{price: price}, nil
		}
	}
	return spotLimit{wrong: true}, fmt.Errorf("annotation %s is %q: it must be dollars an hour such as 0.25, or a share of the price on demand such as 60%%; no spot machine is bought until then", AnnotationSpotMaxPrice, text)
}

// most is the limit for a size with that price on demand; zero when there is none.
func (l spotLimit) most(onDemand offering.Price) offering.Price {
	if l.share > 0 {
		return offering.Price(float64(onDemand) * l.share)
	}
	return l.price
}

// forbids says in words why a size must not be bought as spot; empty when it may be.
func (l spotLimit) forbids(p price) string {
	most := l.most(p.onDemand)
	switch {
	case l.wrong:
		return "the class's annotation " + AnnotationSpotMaxPrice + " cannot be read"
	case most > 0 && p.spot > most:
		return fmt.Sprintf("spot price %s/h is above the class's limit of %s/h", p.spot, most)
	}
	return ""
}

// spotMaxPrice is the limit in Azure's terms, dollars an hour of five digits. Without one we
// pay up to the full price: -1 means that the price is no reason to take the machine back.
func (m *machineType) spotMaxPrice() float64 {
	if m.spotMost <= 0 {
		return -1
	}
	return math.Floor(m.spotMost.USD()*1e5) / 1e5
}

// setPriority makes a spot machine one that Azure may take back, of which nothing stays.
func (m *machineType) setPriority(vm *armcompute.VirtualMachineProperties, capacityType string) {
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesRegular)
	if capacityType != offering.Spot {
		return
	}
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
	vm.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
	vm.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(m.spotMaxPrice())}
}
