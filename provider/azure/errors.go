package azure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/polite"
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
	disallowed           kind = "disallowed" // by a policy of the subscription
	subnetFull           kind = "subnetFull"
	otherRefusal         kind = "otherRefusal" // a 4xx nobody has told us about

	// These are not about the offer: another one would fare no better.
	staleReference kind = "staleReference" // something we referred to is gone, mostly a load balancer pool
	imageMissing   kind = "imageMissing"
	exists         kind = "exists"    // there is a resource of that name
	notFound       kind = "notFound"  // 404
	inUse          kind = "inUse"     // busy for now, such as a NIC kept for another machine
	throttled      kind = "throttled" // ask again after retryAfter
	denied         kind = "denied"    // credentials or permissions
	transient      kind = "transient" // the outcome is unknown
)

// A refusal is an ARM error understood.
type refusal struct {
	kind        kind
	code        string // the cloud's
	detail      string // its message, shortened
	limitIsZero bool   // a quota of nothing at all
	retryAfter  time.Duration
	err         error
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

func (r refusal) reason() string {
	switch r.kind {
	case familyQuota, regionalQuota, spotQuota, machineQuota:
		return reasonQuota
	case skuNotAvailable, zonalAllocation, allocation, overconstrained, overconstrainedZonal:
		return reasonOutOfStock
	case sizeNotSupported, disallowed:
		return reasonRestricted
	case throttled:
		return reasonThrottled
	case subnetFull, staleReference:
		return reasonNetwork
	}
	return reasonOther
}

// ofOffer reports whether another offer may fare better.
func (r refusal) ofOffer() bool {
	switch r.kind {
	case staleReference, imageMissing, exists, notFound, inUse, throttled, denied, transient:
		return false
	}
	return true
}

func (r refusal) words() string {
	if r.detail == "" {
		return r.code
	}
	return r.code + ": " + r.detail
}

// classify understands an error of an ARM call; the zero refusal is none. The HTTP status counts before
// the code and the code before phrases of the message: the code
// OperationNotAllowed alone can mean throttling, three kinds of quota, or a
// machine in the wrong state.
func classify(err error) refusal {
	if err == nil {
		return refusal{}
	}
	var resp *azcore.ResponseError
	if !errors.As(err, &resp) {
		return refusal{kind: transient, code: "RequestFailed", detail: shorten(err.Error()), err: err}
	}
	r := refusal{code: resp.ErrorCode, detail: shorten(message(resp)), err: err}
	if resp.RawResponse != nil {
		r.retryAfter = polite.RetryAfter(resp.RawResponse.Header)
	}
	if kind, decided := byStatus(resp.StatusCode); decided {
		r.kind = kind
		if r.code == "" {
			r.code = http.StatusText(resp.StatusCode)
		}
		return r
	}
	r.kind, r.limitIsZero = byCode(resp.ErrorCode, resp.Error())
	if r.kind == otherRefusal && resp.StatusCode == http.StatusNotFound {
		r.kind = notFound
	}
	if r.kind == otherRefusal && resp.StatusCode == http.StatusForbidden {
		r.kind = denied
	}
	return r
}

// understand is classify for a code and message that came in another way, such
// as the status of a failed machine.
func understand(code, text string) refusal {
	r := refusal{code: code, detail: shorten(text), err: fmt.Errorf("%s: %s", code, text)}
	r.kind, r.limitIsZero = byCode(code, text)
	return r
}

func byStatus(status int) (kind, bool) {
	switch status {
	case http.StatusTooManyRequests:
		return throttled, true
	case http.StatusUnauthorized:
		return denied, true
	case http.StatusPreconditionFailed:
		return exists, true
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return transient, true
	}
	return "", false
}

func byCode(code, text string) (k kind, limitIsZero bool) {
	switch code {
	case "OperationNotAllowed", "QuotaExceeded":
		return byQuota(text)
	case "SkuNotAvailable":
		return skuNotAvailable, false
	case "ZonalAllocationFailed":
		return zonalAllocation, false
	case "AllocationFailed":
		return allocation, false
	case "OverconstrainedZonalAllocationRequest":
		return overconstrainedZonal, false
	case "OverconstrainedAllocationRequest":
		return overconstrained, false
	case "VMSizeNotSupported":
		return sizeNotSupported, false
	case "InvalidParameter", "BadRequest":
		return byParameter(text), false
	case "RequestDisallowedByPolicy":
		return disallowed, false
	case "SubnetIsFull", "InsufficientSubnetSize":
		return subnetFull, false
	case "InvalidResourceReference":
		return staleReference, false
	case "ImageNotFound", "GalleryImageNotFound", "PlatformImageNotFound":
		return imageMissing, false
	case "PropertyChangeNotAllowed", "Conflict":
		return exists, false
	case "ResourceNotFound", "ResourceGroupNotFound", "ParentResourceNotFound", "NotFound":
		return notFound, false
	case "NicReservedForAnotherVm", "NicInUse", "AnotherOperationInProgress", "RetryableError", "RetryableErrorDueToAnotherOperation":
		return inUse, false
	case "AuthorizationFailed", "LinkedAuthorizationFailed", "InvalidAuthenticationToken", "ExpiredAuthenticationToken":
		return denied, false
	case "TooManyRequests", "SubscriptionRequestsThrottled", "ResourceRequestsThrottled":
		return throttled, false
	case "InternalServerError", "InternalExecutionError", "ServiceUnavailable", "GatewayTimeout":
		return transient, false
	}
	return otherRefusal, false
}

// byQuota tells the quotas apart. Spot comes first: its message may name the
// family as well.
func byQuota(text string) (kind, bool) {
	zero := strings.Contains(text, "Current Limit: 0,")
	switch {
	case strings.Contains(text, "LowPriorityCores"), strings.Contains(text, "Low Priority Cores"):
		return spotQuota, zero
	case strings.Contains(text, "Total Regional Cores quota"):
		return regionalQuota, zero
	case strings.Contains(text, "Virtual Machines quota"):
		return machineQuota, zero
	case strings.Contains(text, "Family Cores quota"), strings.Contains(text, "Cores quota"):
		return familyQuota, zero
	}
	return otherRefusal, false
}

func byParameter(text string) kind {
	if strings.Contains(text, "is not supported for subscription") || strings.Contains(text, "VM size") && strings.Contains(text, "not available") {
		return sizeNotSupported
	}
	return otherRefusal
}

// message takes the sentence out of an ARM error body, wrapped or flat.
func message(resp *azcore.ResponseError) string {
	if resp.RawResponse == nil {
		return ""
	}
	body, err := runtime.Payload(resp.RawResponse)
	if err != nil {
		return ""
	}
	var parsed struct {
		Message string
		Error   struct{ Message string }
	}
	if json.Unmarshal(body, &parsed) != nil {
		return ""
	}
	if parsed.Error.Message != "" {
		return parsed.Error.Message
	}
	return parsed.Message
}

// shorten keeps what fits in an event.
func shorten(s string) string {
	const most = 400
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
