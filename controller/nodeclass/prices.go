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
	// ReasonPricesNotRead: the list could not be read, or not as a whole be true.
	ReasonPricesNotRead = "PricesNotRead"
	// ReasonPricesNotListed: the list does not have the region, as for China and
	// private clouds.
	ReasonPricesNotListed = "PricesNotListed"
	// ReasonPricesRefused: single prices of the list cannot be true.
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
	doubted := r.Azure.RejectedPrices()
	if len(doubted) == 0 {
		class.SetTrue(ConditionTypePricesReady)
		return
	}
	var words []string
	for _, d := range doubted[:min(len(doubted), pricesTold)] {
		words = append(words, d.String())
	}
	if more := len(doubted) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	class.SetFalse(ConditionTypePricesReady, ReasonPricesRefused,
		fmt.Sprintf("%d prices of the list are not believed: %s (a NodeOverlay can set a price)", len(doubted), strings.Join(words, "; ")))
}
