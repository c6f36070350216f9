// SPDX-License-Identifier: Apache-2.0

package armerr

import (
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/offering"
)

// Kind classifies an ARM error by how karve reacts to it.
type Kind string

const (
	FamilyQuota          Kind = "familyQuota"
	RegionalQuota        Kind = "regionalQuota"
	SpotQuota            Kind = "spotQuota"
	VMQuota              Kind = "machineQuota" // number of virtual machines, of any size
	SkuNotAvailable      Kind = "skuNotAvailable"
	ZonalAllocation      Kind = "zonalAllocation"
	Allocation           Kind = "allocation"
	OverconstrainedZonal Kind = "overconstrainedZonal"
	Overconstrained      Kind = "overconstrained"
	SizeNotSupported     Kind = "sizeNotSupported"
	SpotPrice            Kind = "spotPrice"    // the spot price is above the class's maximum
	SpotTerms            Kind = "spotTerms"    // the size is not available as spot on these terms
	Disallowed           Kind = "disallowed"   // by a policy of the subscription
	SubnetFull           Kind = "subnetFull"   // no free address
	BootFailed           Kind = "bootFailed"   // created, but its operating system never reported
	MissingResource      Kind = "useless"      // the node joined without the resource it was launched for
	NoDriver             Kind = "noDriver"     // the class's image has no driver for the size's GPU; nothing was requested
	OtherFailure         Kind = "otherRefusal" // a 4xx with an unknown code

	// These are not about the offering: another one would get the same error.
	StaleReference  Kind = "staleReference" // a reference to a deleted resource, mostly a load balancer pool
	ImageMissing    Kind = "imageMissing"
	extensionFailed Kind = "extensionFailed" // the virtual machine may well run
	Conflict        Kind = "conflict"        // a resource of that name exists already, or the resource changed since it was read
	NotFound        Kind = "notFound"        // 404
	InUse           Kind = "inUse"           // busy, such as a NIC reserved for another virtual machine
	Throttled       Kind = "throttled"       // try again after Failure.RetryAfter
	Denied          Kind = "denied"          // credentials or permissions
	Transient       Kind = "transient"       // the outcome is unknown
)

// A meaning is the interpretation of one of Azure's error codes.
type meaning struct {
	code string
	// contains is what the error's text must contain as well; the code alone is not always enough.
	contains string
	Kind     Kind
	// wait is how long the condition lasts when Azure's answer does not say so.
	wait time.Duration
}

// meanings are the known error codes of Compute, Network and AKS; the first match decides.
// Throttling and server errors are recognized by HTTP status first; they are listed here for
// operations that fail late, whose errors have no status.
var meanings = []meaning{
	// Quota, under either of its two codes. Spot comes first: its message may name a family as
	// well. "Cores quota" comes last: the messages about other quotas may contain it, too.
	{code: "OperationNotAllowed", contains: "LowPriorityCores", Kind: SpotQuota},
	{code: "OperationNotAllowed", contains: "Low Priority Cores", Kind: SpotQuota},
	{code: "OperationNotAllowed", contains: "Total Regional Cores quota", Kind: RegionalQuota},
	{code: "OperationNotAllowed", contains: "Virtual Machines quota", Kind: VMQuota},
	{code: "OperationNotAllowed", contains: "Cores quota", Kind: FamilyQuota},

	// Stock.
	{code: "SkuNotAvailable", Kind: SkuNotAvailable},
	{code: "ZonalAllocationFailed", Kind: ZonalAllocation},
	{code: "AllocationFailed", Kind: Allocation},
	{code: "OverconstrainedZonalAllocationRequest", Kind: OverconstrainedZonal},
	{code: "OverconstrainedAllocationRequest", Kind: Overconstrained},

	// What this subscription may launch, and on which terms.
	{code: "VMSizeNotSupported", Kind: SizeNotSupported},
	{code: "BadRequest", contains: "is not supported for subscription", Kind: SizeNotSupported},
	{code: "InvalidParameter", contains: "is not supported for subscription", Kind: SizeNotSupported},
	{code: "InvalidParameter", contains: "The requested VM size", Kind: SizeNotSupported},
	{code: "InvalidParameter", contains: "Cannot find any valid machines", Kind: NotFound},
	{code: "SpotPriceGreaterThanProvidedMaxPrice", Kind: SpotPrice},
	{code: "AzureSpotIsNotSupportedForThisVMSize", Kind: SpotTerms},
	{code: "AzureSpotFeatureNotEnabledForSubscription", Kind: SpotTerms},
	{code: "EphemeralOSDisksNotSupportedForSpotVMs", Kind: SpotTerms},
	{code: "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", Kind: SpotTerms},
	{code: "VMPriorityCannotBeApplied", Kind: SpotTerms},
	{code: "ConflictingUserInput", contains: "pot", Kind: SpotTerms}, // Spot or spot
	{code: "ConflictingUserInput", Kind: OtherFailure},
	{code: "RequestDisallowedByPolicy", Kind: Disallowed},

	// The network.
	{code: "SubnetIsFull", Kind: SubnetFull},
	{code: "InsufficientSubnetSize", Kind: SubnetFull},
	{code: "InvalidResourceReference", Kind: StaleReference, wait: 10 * time.Second},
	{code: "NicReservedForAnotherVm", Kind: InUse, wait: 30 * time.Second}, // Azure may take up to 180s
	{code: "NicInUse", Kind: InUse},
	{code: "AnotherOperationInProgress", Kind: InUse},
	{code: "RetryableError", Kind: InUse},
	{code: "RetryableErrorDueToAnotherOperation", Kind: InUse},
	{code: "OperationNotAllowed", contains: "is in progress", Kind: InUse, wait: 30 * time.Second}, // AKS, while the cluster or a pool is updated

	// The virtual machine itself.
	{code: "ImageNotFound", Kind: ImageMissing},
	{code: "InvalidParameter", contains: "node image version", Kind: ImageMissing}, // AKS's name for an image
	{code: "GalleryImageNotFound", Kind: ImageMissing},
	{code: "PlatformImageNotFound", Kind: ImageMissing},
	{code: "OSProvisioningTimedOut", Kind: BootFailed},
	{code: "VMExtensionProvisioningError", Kind: extensionFailed},
	{code: "VMExtensionProvisioningTimeout", Kind: extensionFailed},
	{code: "VMExtensionHandlerNonTransientError", Kind: extensionFailed},
	{code: "PropertyChangeNotAllowed", Kind: Conflict},
	{code: "PreconditionFailed", Kind: Conflict},
	{code: "Conflict", Kind: Conflict},

	// Any resource.
	{code: "ResourceNotFound", Kind: NotFound},
	{code: "ResourceGroupNotFound", Kind: NotFound},
	{code: "ParentResourceNotFound", Kind: NotFound},
	{code: "NotFound", Kind: NotFound},
	{code: "AuthorizationFailed", Kind: Denied},
	{code: "LinkedAuthorizationFailed", Kind: Denied},
	{code: "InvalidAuthenticationToken", Kind: Denied},
	{code: "ExpiredAuthenticationToken", Kind: Denied},
	{code: "TooManyRequests", Kind: Throttled},
	{code: "SubscriptionRequestsThrottled", Kind: Throttled},
	{code: "ResourceRequestsThrottled", Kind: Throttled},
	{code: "InternalServerError", Kind: Transient},
	{code: "InternalExecutionError", Kind: Transient},
	{code: "ServiceUnavailable", Kind: Transient},
	{code: "GatewayTimeout", Kind: Transient},
}

// MeaningOf returns the meaning of a code; an unknown code is an OtherFailure.
func MeaningOf(code, text string) meaning {
	known := code
	if code == "QuotaExceeded" { // AKS's code for Compute's quota errors
		known = "OperationNotAllowed"
	}
	for _, m := range meanings {
		if m.code == known && strings.Contains(text, m.contains) {
			return m
		}
	}
	return meaning{code: code, Kind: OtherFailure}
}

// Reasons of provider.RefusedOffering.
const (
	ReasonQuota      = "Quota"
	reasonOutOfStock = "OutOfStock"
	ReasonRestricted = "Restricted"
	reasonThrottled  = "Throttled"
	ReasonNetwork    = "Network"
	reasonOther      = "Other"
)

// A reaction is how karve reacts to a refusal of some kind.
type reaction struct {
	reason string // of the provider.RefusedOffering
	// Blocks are the offerings that are blocked, For how long. It is empty where another offering
	// would get the same error.
	Blocks      Extent
	For         time.Duration
	ifLimitZero time.Duration // replaces For if the quota limit is zero; zero: For
	ifSpot      time.Duration // replaces For if the offering was spot; zero: For
	// OnlyLarger means that only sizes of at least as many vCPUs are blocked.
	OnlyLarger bool
	// ForClass means that the node class may be the cause: offerings are blocked for that class
	// only.
	ForClass bool
}

// An Extent is a set of offerings, relative to the one that was refused.
type Extent string

const (
	ThisOffering      Extent = "offer"           // size, zone and capacity type
	ThisSizeInScope   Extent = "size in scope"   // all zones, or the region without a zone
	ThisSizeAsSpot    Extent = "size as spot"    // in any zone
	ThisSize          Extent = "size"            // in any zone, any capacity type
	ThisFamily        Extent = "family"          // in any zone, of this capacity type
	ThisFamilyInZone  Extent = "family in zone"  // any capacity type
	ThisFamilyInScope Extent = "family in scope" // any capacity type
	ThisCapacityType  Extent = "capacity type"   // all sizes
	ThisSubnet        Extent = "subnet"          // all nodes that would join it
	Everything        Extent = "everything"
)

// reactions has an entry for every kind.
var reactions = map[Kind]reaction{
	FamilyQuota:          {reason: ReasonQuota, Blocks: ThisFamily, For: 10 * time.Minute, ifLimitZero: time.Hour, OnlyLarger: true},
	RegionalQuota:        {reason: ReasonQuota, Blocks: ThisCapacityType, For: 10 * time.Minute, OnlyLarger: true},
	SpotQuota:            {reason: ReasonQuota, Blocks: ThisCapacityType, For: 10 * time.Minute, ifLimitZero: time.Hour, OnlyLarger: true},
	VMQuota:              {reason: ReasonQuota, Blocks: Everything, For: 10 * time.Minute}, // every size counts as one
	SkuNotAvailable:      {reason: reasonOutOfStock, Blocks: ThisSizeInScope, For: 23 * time.Hour, ifSpot: time.Hour},
	ZonalAllocation:      {reason: reasonOutOfStock, Blocks: ThisFamilyInZone, For: time.Hour, OnlyLarger: true},
	Allocation:           {reason: reasonOutOfStock, Blocks: ThisFamilyInScope, For: time.Hour, OnlyLarger: true},
	OverconstrainedZonal: {reason: reasonOutOfStock, Blocks: ThisOffering, For: time.Hour},
	Overconstrained:      {reason: reasonOutOfStock, Blocks: ThisSizeInScope, For: time.Hour},
	SizeNotSupported:     {reason: ReasonRestricted, Blocks: ThisSize, For: 23 * time.Hour},
	SpotPrice:            {reason: ReasonRestricted, Blocks: ThisSizeAsSpot, For: 10 * time.Minute, ForClass: true}, // prices move
	SpotTerms:            {reason: ReasonRestricted, Blocks: ThisSizeAsSpot, For: time.Hour},
	Disallowed:           {reason: ReasonRestricted, Blocks: ThisSize, For: 10 * time.Minute, ForClass: true},
	SubnetFull:           {reason: ReasonNetwork, Blocks: ThisSubnet, For: time.Minute},
	BootFailed:           {reason: reasonOther, Blocks: ThisOffering, For: 10 * time.Minute, ForClass: true},
	MissingResource:      {reason: reasonOther, Blocks: ThisSize, For: time.Hour, ForClass: true},
	NoDriver:             {reason: ReasonRestricted, Blocks: ThisSize, For: 10 * time.Minute, ForClass: true},
	OtherFailure:         {reason: reasonOther, Blocks: ThisOffering, For: 3 * time.Minute, ForClass: true},
	StaleReference:       {reason: ReasonNetwork},
	ImageMissing:         {reason: reasonOther},
	extensionFailed:      {reason: reasonOther},
	Conflict:             {reason: reasonOther},
	NotFound:             {reason: reasonOther},
	InUse:                {reason: reasonOther},
	Throttled:            {reason: reasonThrottled},
	Denied:               {reason: reasonOther},
	Transient:            {reason: reasonOther},
}

// Reaction returns how karve reacts to the refusal.
func (r Failure) Reaction() reaction { return reactions[r.Kind] }

// Reason returns the reason of the provider.RefusedOffering.
func (r Failure) Reason() string { return r.Reaction().reason }

// AboutOffering reports whether another offering may succeed.
func (r Failure) AboutOffering() bool { return r.Reaction().Blocks != "" }

// BlockedFor returns how long the offerings of a refusal are blocked.
func (r Failure) BlockedFor(capacityType string) time.Duration {
	c := r.Reaction()
	switch {
	case r.LimitIsZero && c.ifLimitZero > 0:
		return c.ifLimitZero
	case capacityType == offering.Spot && c.ifSpot > 0:
		return c.ifSpot
	}
	return c.For
}
