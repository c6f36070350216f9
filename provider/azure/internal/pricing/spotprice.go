// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
)

// AnnotationSpotMaxPrice, on an AKSNodeClass, is the maximum price of a spot node of the class:
// dollars an hour such as 0.25, or a share of the size's on-demand price such as 60%. Azure
// evicts an instance whose price rises above it.
const AnnotationSpotMaxPrice = "karve.dev/spot-max-price"

// A SpotLimit is the maximum price of a spot node. The zero value means the on-demand price,
// which Azure never exceeds.
type SpotLimit struct {
	price offering.Price
	share float64
	// malformed is set when the annotation cannot be parsed.
	malformed bool
}

// SpotLimitOf parses the node class's limit. When it is malformed, no spot node is launched
// until it is corrected, rather than one at any price.
func SpotLimitOf(class *v1beta1.AKSNodeClass) (SpotLimit, error) {
	text, given := class.Annotations[AnnotationSpotMaxPrice]
	if !given {
		return SpotLimit{}, nil
	}
	if number, isShare := strings.CutSuffix(text, "%"); isShare {
		if percent, err := strconv.ParseFloat(number, 64); err == nil && percent > 0 && percent <= 100 {
			return SpotLimit{share: percent / 100}, nil
		}
	} else if usd, err := strconv.ParseFloat(text, 64); err == nil && usd >= 0.00001 {
		if price, err := offering.USDPerHour(usd); err == nil && price > 0 {
			return SpotLimit{price: price}, nil
		}
	}
	return SpotLimit{malformed: true}, fmt.Errorf("annotation %s is %q: it must be dollars an hour such as 0.25, or a share of the on-demand price such as 60%%; no spot node is launched until then", AnnotationSpotMaxPrice, text)
}

// Max returns the limit for a size with that on-demand price; zero when there is none.
func (l SpotLimit) Max(onDemand offering.Price) offering.Price {
	if l.share > 0 {
		return offering.Price(float64(onDemand) * l.share)
	}
	return l.price
}

// WhyForbidden describes why a size must not be launched as spot; empty when it may be.
func (l SpotLimit) WhyForbidden(p Price) string {
	most := l.Max(p.OnDemand)
	switch {
	case l.malformed:
		return "the class's annotation " + AnnotationSpotMaxPrice + " cannot be read"
	case most > 0 && p.Spot > most:
		return fmt.Sprintf("spot price %s/h is above the class's limit of %s/h", p.Spot, most)
	}
	return ""
}
