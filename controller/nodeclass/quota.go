// SPDX-License-Identifier: Apache-2.0

package nodeclass

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Reasons of kube.ConditionQuotaAvailable besides ReasonQuotaExhausted.
const (
	// ReasonAddressesExhausted: the subnet has no free addresses for a node.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonQuotaRunsOut: the quota suffices now, and not for long at this rate.
	ReasonQuotaRunsOut = "QuotaRunsOut"
	// ReasonQuotaInPart: the quotas that are known suffice, and the message names the unknown
	// ones.
	ReasonQuotaInPart = "QuotaKnownInPart"
	// ReasonQuotaNotKnown: it could not be read, and VMs are launched without regard to it.
	ReasonQuotaNotKnown = "QuotaNotKnown"
)

const (
	// runsOut is how soon a quota must run out to be reported.
	runsOut = 6 * time.Hour
	// quotasTold is how many quotas a condition names.
	quotasTold = 3
)

// quota reports whether quota and addresses suffice for more nodes, and for how long.
func (r *Reconciler) quota(class *v1beta1.AKSNodeClass, s *provider.Catalog) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		class.SetCondition(metav1.Condition{Type: kube.ConditionQuotaAvailable, Status: status, Reason: reason, Message: message})
	}
	offerings, short := shortages(s)
	switch {
	case len(s.QuotaLeft) == 0:
		set(metav1.ConditionUnknown, ReasonQuotaNotKnown, firstOf(s.Problem, "there is no reading yet")+": VMs are launched until Azure refuses them")
	case offerings > 0 && short.all == offerings:
		reason, step := ReasonQuotaExhausted, "raise the subscription's quota or free some"
		if short.addresses == offerings {
			reason, step = ReasonAddressesExhausted, "enlarge the subnet, or name another in vnetSubnetID"
		}
		set(metav1.ConditionFalse, reason, fmt.Sprintf("none of %d offerings fits into what is left (%s): %s", offerings, describeQuota(short.sample), step))
	default:
		if ending := soonExhausted(s.QuotaForecast); len(ending) > 0 {
			set(metav1.ConditionTrue, ReasonQuotaRunsOut, strings.Join(ending, "; "))
			return
		}
		if open := unbounded(s); len(open) > 0 {
			set(metav1.ConditionTrue, ReasonQuotaInPart, "nothing is known of "+few(open)+": VMs are launched until Azure refuses them")
			return
		}
		class.SetTrue(kube.ConditionQuotaAvailable)
	}
}

// unbounded names the quotas that offerings use and whose limits are unknown.
func unbounded(s *provider.Catalog) []string {
	var open []string
	for i := range s.Types {
		for _, o := range s.Types[i].Offerings {
			for _, d := range o.QuotaUses {
				if _, known := s.QuotaLeft[d.Quota]; !known && !slices.Contains(open, d.Quota) {
					open = append(open, d.Quota)
				}
			}
		}
	}
	slices.Sort(open)
	for i, quota := range open {
		open[i] = describeQuota(quota)
	}
	return open
}

// few names the first of many.
func few(names []string) string {
	if len(names) <= quotasTold {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:quotasTold], ", "), len(names)-quotasTold)
}

// shortage counts offerings that a quota does not suffice for.
type shortage struct {
	all, addresses int    // for lack of anything, of addresses
	sample         string // a quota
}

func shortages(s *provider.Catalog) (offerings int, short shortage) {
	for i := range s.Types {
		for j := range s.Types[i].Offerings {
			offerings++
			quota := shortOf(&s.Types[i].Offerings[j], s.QuotaLeft)
			if quota == "" {
				continue
			}
			short.all++
			short.sample = firstOf(short.sample, quota)
			if strings.HasPrefix(quota, offering.AddressQuota) {
				short.addresses++
			}
		}
	}
	return offerings, short
}

// soonExhausted describes the quotas that soon run out, the first to run out first.
func soonExhausted(forecast map[string]provider.Exhaustion) []string {
	soon := slices.DeleteFunc(slices.Sorted(maps.Keys(forecast)), func(quota string) bool { return forecast[quota].In > runsOut })
	slices.SortStableFunc(soon, func(a, b string) int { return cmp.Compare(forecast[a].In, forecast[b].In) })
	var words []string
	for _, quota := range soon[:min(len(soon), quotasTold)] {
		e := forecast[quota]
		words = append(words, fmt.Sprintf("%s has %d left, which last %s at the current rate", describeQuota(quota), e.Left, minutes(e.In)))
	}
	return words
}

// minutes writes 1h5m, without seconds.
func minutes(d time.Duration) string {
	if d < time.Minute {
		return "less than a minute"
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}

// describeQuota names a quota, or a subnet whose addresses count as one, for people.
func describeQuota(quota string) string {
	if subnet, ok := strings.CutPrefix(quota, offering.AddressQuota); ok {
		return "subnet " + subnet
	}
	return "quota " + quota
}
