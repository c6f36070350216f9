package azure

import (
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// kind classifies an ARM error by how karve reacts to it.
type kind string

const (
	familyQuota          kind = "familyQuota"
	regionalQuota        kind = "regionalQuota"
	spotQuota            kind = "spotQuota"
	machineQuota         kind = "machineQuota" // number of virtual machines, of any size
	skuNotAvailable      kind = "skuNotAvailable"
	zonalAllocation      kind = "zonalAllocation"
	allocation           kind = "allocation"
	overconstrainedZonal kind = "overconstrainedZonal"
	overconstrained      kind = "overconstrained"
	sizeNotSupported     kind = "sizeNotSupported"
	spotPrice            kind = "spotPrice"    // the spot price is above the class's maximum
	spotTerms            kind = "spotTerms"    // the size is not sold as spot on these terms
	disallowed           kind = "disallowed"   // by a policy of the subscription
	subnetFull           kind = "subnetFull"   // no free address
	bootFailed           kind = "bootFailed"   // created, but its operating system never reported
	useless              kind = "useless"      // the node joined without the resource it was launched for
	noDriver             kind = "noDriver"     // the class's image has no driver for the size's GPU; nothing was requested
	otherRefusal         kind = "otherRefusal" // a 4xx with an unknown code

	// These are not about the offering: another one would get the same error.
	staleReference  kind = "staleReference" // a referenced resource is gone, mostly a load balancer pool
	imageMissing    kind = "imageMissing"
	extensionFailed kind = "extensionFailed" // the virtual machine may well run
	exists          kind = "exists"          // a resource of that name exists
	notFound        kind = "notFound"        // 404
	inUse           kind = "inUse"           // busy, such as a NIC reserved for another virtual machine
	throttled       kind = "throttled"       // ask again after retryAfter
	denied          kind = "denied"          // credentials or permissions
	transient       kind = "transient"       // the outcome is unknown
)

// A meaning is the interpretation of one of Azure's error codes.
type meaning struct {
	code string
	// says is what the error's text must contain as well; the code alone is not always enough.
	says string
	kind kind
	// wait is how long the condition lasts when Azure's answer does not say so.
	wait time.Duration
}

// meanings are the known error codes of Compute, Network and AKS; the first match decides.
// Throttling and server errors are recognized by HTTP status first; they are listed here for
// operations that fail late, whose errors have no status.
var meanings = []meaning{
	// Quota, under either of its two codes. Spot comes first: its message may name a family as
	// well. The last "Cores quota" entry covers families whose name lacks the word.
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
	{code: "NicReservedForAnotherVm", kind: inUse, wait: 30 * time.Second}, // Azure may take up to 180s
	{code: "NicInUse", kind: inUse},
	{code: "AnotherOperationInProgress", kind: inUse},
	{code: "RetryableError", kind: inUse},
	{code: "RetryableErrorDueToAnotherOperation", kind: inUse},
	{code: "OperationNotAllowed", says: "is in progress", kind: inUse, wait: 30 * time.Second}, // AKS, while the cluster or a pool is updated

	// The virtual machine itself.
	{code: "ImageNotFound", kind: imageMissing},
	{code: "InvalidParameter", says: "node image version", kind: imageMissing}, // AKS's name for an image
	{code: "GalleryImageNotFound", kind: imageMissing},
	{code: "PlatformImageNotFound", kind: imageMissing},
	{code: "OSProvisioningTimedOut", kind: bootFailed},
	{code: "VMExtensionProvisioningError", kind: extensionFailed},
	{code: "VMExtensionProvisioningTimeout", kind: extensionFailed},
	{code: "VMExtensionHandlerNonTransientError", kind: extensionFailed},
	{code: "PropertyChangeNotAllowed", kind: exists},
	{code: "PreconditionFailed", kind: exists},
	{code: "Conflict", kind: exists},

	// Any resource.
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

// meaningOf returns the meaning of a code; an unknown code is an otherRefusal.
func meaningOf(code, text string) meaning {
	known := code
	if code == "QuotaExceeded" { // AKS's code for Compute's quota errors
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

// A conduct is how karve reacts to a refusal of some kind.
type conduct struct {
	reason string // of the provider.Attempt
	// avoid are the offerings that are blocked, rest for how long; empty blocks none, as another
	// offering would get the same error.
	avoid  extent
	rest   time.Duration
	atNone time.Duration // rest if the quota limit is zero; zero: rest
	spot   time.Duration // rest if the offering was spot; zero: rest
	// larger means that only sizes of at least as many vCPUs are blocked.
	larger bool
	// ofClass means that the node class may be the cause: offerings are blocked for that class
	// only.
	ofClass bool
}

// An extent is a set of offerings, relative to the one that was refused.
type extent string

const (
	thisOffer        extent = "offer"           // size, zone and capacity type
	thisSizeInScope  extent = "size in scope"   // all zones, or the region without a zone
	thisSizeAsSpot   extent = "size as spot"    // in any zone
	thisSize         extent = "size"            // in any zone, any capacity type
	thisFamily       extent = "family"          // in any zone, of this capacity type
	thisFamilyInZone extent = "family in zone"  // any capacity type
	thisFamilyScope  extent = "family in scope" // any capacity type
	thisCapacityType extent = "capacity type"   // all sizes
	thisSubnet       extent = "subnet"          // all nodes that would join it
	everything       extent = "everything"
)

// conducts has an entry for every kind.
var conducts = map[kind]conduct{
	familyQuota:          {reason: reasonQuota, avoid: thisFamily, rest: 10 * time.Minute, atNone: time.Hour, larger: true},
	regionalQuota:        {reason: reasonQuota, avoid: thisCapacityType, rest: 10 * time.Minute, larger: true},
	spotQuota:            {reason: reasonQuota, avoid: thisCapacityType, rest: 10 * time.Minute, atNone: time.Hour, larger: true},
	machineQuota:         {reason: reasonQuota, avoid: everything, rest: 10 * time.Minute}, // every size counts as one
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

// ofOffer reports whether another offering may succeed.
func (r refusal) ofOffer() bool { return r.conduct().avoid != "" }

// rests returns how long the offerings of a refusal are blocked.
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
