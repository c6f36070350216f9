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

// AnnotationSpotMaxPrice, on an AKSNodeClass, is the maximum price of a spot node of the class:
// dollars an hour such as 0.25, or a share of the size's on-demand price such as 60%. Azure
// evicts an instance whose price rises above it.
const AnnotationSpotMaxPrice = "karve.dev/spot-max-price"

// A spotLimit is the maximum price of a spot node. The zero value means the on-demand price,
// which Azure never exceeds.
type spotLimit struct {
	price offering.Price
	share float64
	// wrong is set when the annotation cannot be parsed.
	wrong bool
}

// spotLimitOf parses the node class's limit. When it is malformed, no spot node is launched
// until it is corrected, rather than one at any price.
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

// most returns the limit for a size with that on-demand price; zero when there is none.
func (l spotLimit) most(onDemand offering.Price) offering.Price {
	if l.share > 0 {
		return offering.Price(float64(onDemand) * l.share)
	}
	return l.price
}

// forbids describes why a size must not be launched as spot; empty when it may be.
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

// spotMaxPrice returns the limit for Azure's API: dollars an hour with five decimals. Without a
// limit it is -1: Azure then never evicts because of the price, and charges at most the
// on-demand price.
func (m *machineType) spotMaxPrice() float64 {
	if m.spotMost <= 0 {
		return -1
	}
	return math.Floor(m.spotMost.USD()*1e5) / 1e5
}

// setPriority sets the priority of a virtual machine. A spot one is deleted when Azure evicts
// it.
func (m *machineType) setPriority(vm *armcompute.VirtualMachineProperties, capacityType string) {
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesRegular)
	if capacityType != offering.Spot {
		return
	}
	vm.Priority = to.Ptr(armcompute.VirtualMachinePriorityTypesSpot)
	vm.EvictionPolicy = to.Ptr(armcompute.VirtualMachineEvictionPolicyTypesDelete)
	vm.BillingProfile = &armcompute.BillingProfile{MaxPrice: to.Ptr(m.spotMaxPrice())}
}
