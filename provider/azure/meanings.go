package azure

import (
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// kind is what an ARM error means to us.
type kind string

const (
	familyQuota          kind = "familyQuota"
	regionalQuota        kind = "regionalQuota"
	spotQuota            kind = "spotQuota"
	machineQuota         kind = "machineQuota" // of machines, however small
	skuNotAvailable      kind = "skuNotAvailable"
	zonalAllocation      kind = "zonalAllocation"
	allocation           kind = "allocation"
	overconstrainedZonal kind = "overconstrainedZonal"
	overconstrained      kind = "overconstrained"
	sizeNotSupported     kind = "sizeNotSupported"
	spotPrice            kind = "spotPrice"    // the spot price is above the class's maximum
	spotTerms            kind = "spotTerms"    // the size is not sold as spot on these terms
	disallowed           kind = "disallowed"   // by a policy of the subscription
	subnetFull           kind = "subnetFull"   // no address is left
	bootFailed           kind = "bootFailed"   // the machine was made, and its system never reported
	useless              kind = "useless"      // the machine joined without what it was bought for, as nodes say
	noDriver             kind = "noDriver"     // the class's image has no driver for the size's GPU; nothing was asked for
	otherRefusal         kind = "otherRefusal" // a 4xx nobody has told us about

	// These are not about the offer: another one would fare no better.
	staleReference  kind = "staleReference" // something we referred to is gone, mostly a load balancer pool
	imageMissing    kind = "imageMissing"
	extensionFailed kind = "extensionFailed" // of a machine that may well run
	exists          kind = "exists"          // there is a resource of that name
	notFound        kind = "notFound"        // 404
	inUse           kind = "inUse"           // busy for now, such as a NIC kept for another machine
	throttled       kind = "throttled"       // ask again after retryAfter
	denied          kind = "denied"          // credentials or permissions
	transient       kind = "transient"       // the outcome is unknown
)

// A meaning is one of Azure's error codes understood.
type meaning struct {
	code string
	// says is what the error's text must contain besides; the code alone is not
	// always enough.
	says string
	kind kind
	// wait is how long Azure takes to get over it where it does not say so itself.
	wait time.Duration
}

// meanings are the codes that compute, network and AKS are known to answer with; the
// first that matches decides. What throttling and failing servers say comes by HTTP
// status before any of them is looked at; they are here for operations that fail late,
// whose errors have none.
var meanings = []meaning{
	// Quota, whichever of its two codes it has. Spot comes first: its message may name a family
	// as well. The last of the cores is that of a family whose name lacks the word.
	{code: "OperationNotAllowed", says: "LowPriorityCores", kind: spotQuota},
	{code: "OperationNotAllowed", says: "Low Priority Cores", kind: spotQuota},
	{code: "OperationNotAllowed", says: "Total Regional Cores quota", kind: regionalQuota},
	{code: "OperationNotAllowed", says: "Virtual Machines quota", kind: machineQuota},
	{code: "OperationNotAllowed", says: "Cores quota", kind: familyQuota},

	// Stock.
	{code: "SkuNotAvailable", kind: skuNotAvailable},
	{code: "ZonalAllocationFailed", kind: zonalAllocation},
	{code: "AllocationFailed", kind: allocation},
	{code: "OverconstrainedZonalAllocationRequest", kind: overconstrainedZonal},
	{code: "OverconstrainedAllocationRequest", kind: overconstrained},

	// What this subscription may buy, and on which terms.
	{code: "VMSizeNotSupported", kind: sizeNotSupported},
	{code: "BadRequest", says: "is not supported for subscription", kind: sizeNotSupported},
	{code: "InvalidParameter", says: "is not supported for subscription", kind: sizeNotSupported},
	{code: "InvalidParameter", says: "The requested VM size", kind: sizeNotSupported},
	{code: "InvalidParameter", says: "Cannot find any valid machines", kind: notFound},
	{code: "SpotPriceGreaterThanProvidedMaxPrice", kind: spotPrice},
	{code: "AzureSpotIsNotSupportedForThisVMSize", kind: spotTerms},
	{code: "AzureSpotFeatureNotEnabledForSubscription", kind: spotTerms},
	{code: "EphemeralOSDisksNotSupportedForSpotVMs", kind: spotTerms},
	{code: "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", kind: spotTerms},
	{code: "VMPriorityCannotBeApplied", kind: spotTerms},
	{code: "ConflictingUserInput", says: "pot", kind: spotTerms}, // Spot or spot
	{code: "ConflictingUserInput", kind: otherRefusal},
	{code: "RequestDisallowedByPolicy", kind: disallowed},

	// The network.
	{code: "SubnetIsFull", kind: subnetFull},
	{code: "InsufficientSubnetSize", kind: subnetFull},
	{code: "InvalidResourceReference", kind: staleReference, wait: 10 * time.Second},
	{code: "NicReservedForAnotherVm", kind: inUse, wait: 30 * time.Second}, // of the 180 it may take
	{code: "NicInUse", kind: inUse},
	{code: "AnotherOperationInProgress", kind: inUse},
	{code: "RetryableError", kind: inUse},
	{code: "RetryableErrorDueToAnotherOperation", kind: inUse},
	{code: "OperationNotAllowed", says: "is in progress", kind: inUse, wait: 30 * time.Second}, // AKS's, while the cluster or a pool is changed

	// The machine itself.
	{code: "ImageNotFound", kind: imageMissing},
	{code: "InvalidParameter", says: "node image version", kind: imageMissing}, // AKS's word for one
	{code: "GalleryImageNotFound", kind: imageMissing},
	{code: "PlatformImageNotFound", kind: imageMissing},
	{code: "OSProvisioningTimedOut", kind: bootFailed},
	{code: "VMExtensionProvisioningError", kind: extensionFailed},
	{code: "VMExtensionProvisioningTimeout", kind: extensionFailed},
	{code: "VMExtensionHandlerNonTransientError", kind: extensionFailed},
	{code: "PropertyChangeNotAllowed", kind: exists},
	{code: "PreconditionFailed", kind: exists},
	{code: "Conflict", kind: exists},

	// Whatever is asked for.
	{code: "ResourceNotFound", kind: notFound},
	{code: "ResourceGroupNotFound", kind: notFound},
	{code: "ParentResourceNotFound", kind: notFound},
	{code: "NotFound", kind: notFound},
	{code: "AuthorizationFailed", kind: denied},
	{code: "LinkedAuthorizationFailed", kind: denied},
	{code: "InvalidAuthenticationToken", kind: denied},
	{code: "ExpiredAuthenticationToken", kind: denied},
	{code: "TooManyRequests", kind: throttled},
	{code: "SubscriptionRequestsThrottled", kind: throttled},
	{code: "ResourceRequestsThrottled", kind: throttled},
	{code: "InternalServerError", kind: transient},
	{code: "InternalExecutionError", kind: transient},
	{code: "ServiceUnavailable", kind: transient},
	{code: "GatewayTimeout", kind: transient},
}

// meaningOf looks a code up; one that is not known is an otherRefusal.
func meaningOf(code, text string) meaning {
	known := code
	if code == "QuotaExceeded" { // what the machine API makes of compute's
		known = "OperationNotAllowed"
	}
	for _, m := range meanings {
		if m.code == known && strings.Contains(text, m.says) {
			return m
		}
	}
	return meaning{code: code, kind: otherRefusal}
}

// Reasons of provider.Attempt.
const (
	reasonQuota      = "Quota"
	reasonOutOfStock = "OutOfStock"
	reasonRestricted = "Restricted"
	reasonThrottled  = "Throttled"
	reasonNetwork    = "Network"
	reasonOther      = "Other"
)

// A conduct is how we behave after a refusal of some kind.
type conduct struct {
	reason string // of the provider.Attempt
	// avoid are the offers that rest, for how long; nothing rests when it is empty, as
	// another offer would fare no better.
	avoid  extent
	rest   time.Duration
	atNone time.Duration // rest where the quota is nothing at all; zero: rest
	spot   time.Duration // rest where the offer was spot; zero: rest
	// larger says that smaller sizes may still be had.
	larger bool
	// ofClass says that it may be the class that is wrong: offers rest for it alone.
	ofClass bool
}

// An extent is a set of offers, seen from the one that was refused.
type extent string

const (
	thisOffer        extent = "offer"           // size, zone and capacity type
	thisSizeInScope  extent = "size in scope"   // all zones, or the region without a choice of zone
	thisSizeAsSpot   extent = "size as spot"    // wherever
	thisSize         extent = "size"            // wherever and however sold
	thisFamily       extent = "family"          // wherever, of this capacity type
	thisFamilyInZone extent = "family in zone"  // however sold
	thisFamilyScope  extent = "family in scope" // likewise
	thisCapacityType extent = "capacity type"   // all sizes
	thisSubnet       extent = "subnet"          // whatever would join it
	everything       extent = "everything"
)

// conducts has every kind.
var conducts = map[kind]conduct{
	familyQuota:          {reason: reasonQuota, avoid: thisFamily, rest: 10 * time.Minute, atNone: time.Hour, larger: true},
	regionalQuota:        {reason: reasonQuota, avoid: thisCapacityType, rest: 10 * time.Minute, larger: true},
	spotQuota:            {reason: reasonQuota, avoid: thisCapacityType, rest: 10 * time.Minute, atNone: time.Hour, larger: true},
	machineQuota:         {reason: reasonQuota, avoid: everything, rest: 10 * time.Minute}, // no size fares better than another
	skuNotAvailable:      {reason: reasonOutOfStock, avoid: thisSizeInScope, rest: 23 * time.Hour, spot: time.Hour},
	zonalAllocation:      {reason: reasonOutOfStock, avoid: thisFamilyInZone, rest: time.Hour, larger: true},
	allocation:           {reason: reasonOutOfStock, avoid: thisFamilyScope, rest: time.Hour, larger: true},
	overconstrainedZonal: {reason: reasonOutOfStock, avoid: thisOffer, rest: time.Hour},
	overconstrained:      {reason: reasonOutOfStock, avoid: thisSizeInScope, rest: time.Hour},
	sizeNotSupported:     {reason: reasonRestricted, avoid: thisSize, rest: 23 * time.Hour},
	spotPrice:            {reason: reasonRestricted, avoid: thisSizeAsSpot, rest: 10 * time.Minute, ofClass: true}, // prices move
	spotTerms:            {reason: reasonRestricted, avoid: thisSizeAsSpot, rest: time.Hour},
	disallowed:           {reason: reasonRestricted, avoid: thisSize, rest: 10 * time.Minute, ofClass: true},
	subnetFull:           {reason: reasonNetwork, avoid: thisSubnet, rest: time.Minute},
	bootFailed:           {reason: reasonOther, avoid: thisOffer, rest: 10 * time.Minute, ofClass: true},
	useless:              {reason: reasonOther, avoid: thisSize, rest: time.Hour, ofClass: true},
	noDriver:             {reason: reasonRestricted, avoid: thisSize, rest: 10 * time.Minute, ofClass: true},
	otherRefusal:         {reason: reasonOther, avoid: thisOffer, rest: 3 * time.Minute, ofClass: true},
	staleReference:       {reason: reasonNetwork},
	imageMissing:         {reason: reasonOther},
	extensionFailed:      {reason: reasonOther},
	exists:               {reason: reasonOther},
	notFound:             {reason: reasonOther},
	inUse:                {reason: reasonOther},
	throttled:            {reason: reasonThrottled},
	denied:               {reason: reasonOther},
	transient:            {reason: reasonOther},
}

func (r refusal) conduct() conduct { return conducts[r.kind] }

func (r refusal) reason() string { return r.conduct().reason }

// ofOffer reports whether another offer may fare better.
func (r refusal) ofOffer() bool { return r.conduct().avoid != "" }

// rests is for how long the offers rest that a refusal speaks against.
func (r refusal) rests(capacityType string) time.Duration {
	c := r.conduct()
	switch {
	case r.limitIsZero && c.atNone > 0:
		return c.atNone
	case capacityType == offering.Spot && c.spot > 0:
		return c.spot
	}
	return c.rest
}

// spread says which offers a refusal of s speaks against, and from which size on.
func (r refusal) spread(s *sku, zone, capacityType string, by buyer) (keys []blockKey, floor int64) {
	c := r.conduct()
	if c.larger && !r.limitIsZero {
		floor = s.vcpus
	}
	keys = c.avoid.of(s, zone, capacityType, by.subnet)
	if c.ofClass {
		for i := range keys {
			keys[i].class = by.class
		}
	}
	return keys, floor
}

// of are the blocks that make up an extent.
func (e extent) of(s *sku, zone, sold, subnetID string) []blockKey {
	both := func(k blockKey) []blockKey {
		onDemand, spot := k, k
		onDemand.capacityType, spot.capacityType = offering.OnDemand, offering.Spot
		return []blockKey{onDemand, spot}
	}
	switch e {
	case thisOffer:
		return []blockKey{{size: s.name, zone: zone, capacityType: sold}}
	case thisSizeInScope:
		return []blockKey{{size: s.name, scope: scopeOf(zone), capacityType: sold}}
	case thisSizeAsSpot:
		return []blockKey{{size: s.name, capacityType: offering.Spot}}
	case thisSize:
		return both(blockKey{size: s.name})
	case thisFamily:
		return []blockKey{{family: s.family, capacityType: sold}}
	case thisFamilyInZone:
		return both(blockKey{family: s.family, zone: zone})
	case thisFamilyScope:
		return both(blockKey{family: s.family, scope: scopeOf(zone)})
	case thisCapacityType:
		return []blockKey{{capacityType: sold}}
	case everything:
		return both(blockKey{})
	case thisSubnet:
		return []blockKey{{subnet: subnetID}}
	}
	return nil
}
