// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"fmt"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
)

// The condition about the price list. It informs and does not count towards Ready: there
// is always a price to use.
const (
	// ConditionTypePricesReady: offerings are chosen by the prices of Azure's list.
	ConditionTypePricesReady = "karve.dev/PricesReady"
	// ReasonPricesNotRead: the list could not be read, or is implausible as a whole.
	ReasonPricesNotRead = "PricesNotRead"
	// ReasonPricesNotListed: the list does not have the region, as for China and
	// private clouds.
	ReasonPricesNotListed = "PricesNotListed"
	// ReasonPricesRefused: single prices of the list are rejected as implausible.
	ReasonPricesRefused = "PricesRefused"
)

// pricesTold is how many prices the condition names.
const pricesTold = 3

// prices reports where prices other than the list's are used.
func (r *Reconciler) prices(class *v1beta1.AKSNodeClass) {
	if problem := r.Azure.PricesProblem(); problem != "" {
		class.SetFalse(ConditionTypePricesReady, ReasonPricesNotRead, problem+"; earlier or built-in prices are used")
		return
	}
	if unlisted := r.Azure.PricesUnlisted(); unlisted != "" {
		class.SetUnknown(ConditionTypePricesReady, ReasonPricesNotListed, unlisted+" (a NodeOverlay can set a price)")
		return
	}
	rejected := r.Azure.RejectedPrices()
	if len(rejected) == 0 {
		class.SetTrue(ConditionTypePricesReady)
		return
	}
	var words []string
	for _, d := range rejected[:min(len(rejected), pricesTold)] {
		words = append(words, d.String())
	}
	if more := len(rejected) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	class.SetFalse(ConditionTypePricesReady, ReasonPricesRefused,
		fmt.Sprintf("%d prices of the list are rejected as implausible: %s (a NodeOverlay can set a price)", len(rejected), strings.Join(words, "; ")))
}
