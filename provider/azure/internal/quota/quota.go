// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// Names of quotas. Each VM family has one too; see OfFamily.
const (
	Regional = "regional"        // vCPUs of all on-demand nodes
	Spot     = "lowPriority"     // vCPUs of all spot nodes
	VMs      = "virtualMachines" // number of virtual machines
)

// OfFamily returns the name of the on-demand vCPU quota of a VM family.
func OfFamily(family string) string { return "family:" + family }

// Describe describes a quota for messages.
func Describe(name string) string {
	if subnet, ok := strings.CutPrefix(name, offering.AddressQuota); ok {
		return "the addresses of subnet " + subnet
	}
	return "quota " + name
}

func RefusalReason(name string) string {
	if strings.HasPrefix(name, offering.AddressQuota) {
		return armerr.ReasonNetwork
	}
	return armerr.ReasonQuota
}

// Usage is one quota: its limit and its use.
type Usage struct{ Limit, used int64 }

// Usages is quota by the API's name in lower case: the API's case differs between sizes and
// quotas.
type Usages map[string]Usage

// Reader reads the region's quota.
type Reader struct {
	ARM                    *arm.Client
	Decoder                *armlist.Decoder
	Subscription, Location string
}

// usagesVersion is the API version of the SDK's client for quota.
const usagesVersion = "2026-04-01"

func (r *Reader) Read(ctx context.Context) (Usages, error) {
	link := runtime.JoinPaths(r.ARM.Endpoint(), "subscriptions", url.PathEscape(r.Subscription),
		"providers/Microsoft.Compute/locations", url.PathEscape(r.Location), "usages") + "?api-version=" + usagesVersion
	list, _, err := armlist.All[armcompute.Usage](ctx, r.ARM, r.Decoder, link)
	if err != nil {
		return nil, err
	}
	out := Usages{}
	for _, u := range list {
		if u.Name != nil && u.Limit != nil && u.CurrentValue != nil {
			out[strings.ToLower(armtext.Of(u.Name.Value))] = Usage{Limit: limitOf(*u.Limit), used: int64(*u.CurrentValue)}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the region reports no quota at all")
	}
	return out, nil
}

// limitOf returns the limit; a negative one means no limit.
func limitOf(limit int64) int64 {
	if limit < 0 {
		return math.MaxInt64
	}
	return limit
}

// Of returns the quota of that name.
func (u Usages) Of(name string) (Usage, bool) {
	key := strings.ToLower(strings.TrimPrefix(name, "family:"))
	switch name {
	case Regional:
		key = "cores"
	case Spot:
		key = "lowprioritycores"
	}
	quota, ok := u[key]
	return quota, ok
}

// Unlisted returns the VM families among the quota names that the last reading of the quota
// lacks, sorted. Their nodes are launched without regard to it.
func (u Usages) Unlisted(quotas []string) []string {
	if len(u) == 0 {
		return nil // there is no reading, which is reported elsewhere
	}
	var out []string
	for _, b := range quotas {
		family, of := strings.CutPrefix(b, "family:")
		if _, ok := u.Of(b); of && !ok {
			out = append(out, family)
		}
	}
	slices.Sort(out)
	return out
}

// sameLimits compares the limits, which can make a size unavailable for good. The version of a
// catalog depends on them, and not on the use.
func (u Usages) sameLimits(v Usages) bool {
	return maps.EqualFunc(u, v, func(a, b Usage) bool { return a.Limit == b.Limit })
}

// Uses returns the quota use of one node. Spot has a quota of its own and does not use that of
// the family and the region.
func Uses(s *sku.SKU, capacityType string) []offering.QuotaUse {
	if capacityType == offering.Spot {
		return []offering.QuotaUse{{Quota: Spot, Amount: s.VCPUs}, {Quota: VMs, Amount: 1}}
	}
	return []offering.QuotaUse{
		{Quota: OfFamily(s.Family), Amount: s.VCPUs},
		{Quota: Regional, Amount: s.VCPUs},
		{Quota: VMs, Amount: 1},
	}
}
