package azure

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// answer makes the error the SDK makes of an HTTP response.
func armError(status int, header, body string) error {
	h := http.Header{"Content-Type": {"application/json"}}
	if name, value, ok := strings.Cut(header, ": "); ok {
		h.Set(name, value)
	}
	request, _ := http.NewRequest(http.MethodPut, "https://arm.example/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/vm", nil)
	return runtime.NewResponseError(&http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: request,
	})
}

func quotaBody(which, limit string) string {
	return `{"error":{"code":"OperationNotAllowed","message":"Operation could not be completed as it results in exceeding approved ` + which +
		` quota. Additional details - Deployment Model: Resource Manager, Location: eastus, Current Limit: ` + limit +
		`, Current Usage: 96, Additional Required: 32, (Minimum) New Limit Required: 128. Submit a request for Quota increase at https://aka.ms/ProdportalCRP/x"}}`
}

// Rule 183.
func TestClassify(t *testing.T) {
	wrapped := func(code, message string) string {
		return `{"error":{"code":"` + code + `","message":"` + message + `"}}`
	}
	for _, test := range []struct {
		name   string
		status int
		header string
		body   string
		want   kind
		reason string
		zero   bool
		after  time.Duration
	}{
		{name: "family quota", status: 409, body: quotaBody("standardDSv5Family Cores", "100"), want: familyQuota, reason: "Quota"},
		{name: "family quota of nothing", status: 409, body: quotaBody("standardNCADSA100v4Family Cores", "0"), want: familyQuota, reason: "Quota", zero: true},
		{name: "family whose name lacks the word", status: 409, body: quotaBody("Standard NDASv4_A100 Family Cores", "10"), want: familyQuota, reason: "Quota"},
		{name: "regional quota", status: 409, body: quotaBody("Total Regional Cores", "100"), want: regionalQuota, reason: "Quota"},
		{name: "quota of machines", status: 409, body: quotaBody("Virtual Machines", "25000"), want: machineQuota, reason: "Quota"},
		{name: "spot quota, in words", status: 409, body: quotaBody("Low Priority Cores", "100"), want: spotQuota, reason: "Quota"},
		{name: "spot quota, in the link only", status: 409, body: wrapped("OperationNotAllowed", "exceeding approved standardDSv5Family Cores quota, see https://x?LowPriorityCores"), want: spotQuota, reason: "Quota"},
		{name: "an operation in the wrong state", status: 409, body: wrapped("OperationNotAllowed", "VM is deallocated"), want: otherRefusal, reason: "Other"},
		{name: "compute throttling, flat, with the code of quota", status: 429, header: "Retry-After: 1200",
			body: `{"code":"OperationNotAllowed","message":"The server rejected the request because too many requests have been received for this subscription.","details":[{"code":"TooManyRequests","target":"HighCostGet30Min","message":"{}"}]}`,
			want: throttled, reason: "Throttled", after: 20 * time.Minute},
		{name: "ARM throttling", status: 429, header: "x-ms-retry-after-ms: 250", body: wrapped("SubscriptionRequestsThrottled", "Please try again after '17' seconds."), want: throttled, reason: "Throttled", after: 250 * time.Millisecond},
		{name: "size out of stock", status: 409, body: wrapped("SkuNotAvailable", "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: Standard_D4s_v5' is currently not available in location 'eastus'."), want: skuNotAvailable, reason: "OutOfStock"},
		{name: "zone out of stock", status: 409, body: wrapped("ZonalAllocationFailed", "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone."), want: zonalAllocation, reason: "OutOfStock"},
		{name: "zone out of stock, told by an operation", status: 200, body: `{"status":"Failed","error":{"code":"ZonalAllocationFailed","message":"Allocation failed."}}`, want: zonalAllocation, reason: "OutOfStock"},
		{name: "region out of stock", status: 409, body: wrapped("AllocationFailed", "Allocation failed. The cluster is out of capacity."), want: allocation, reason: "OutOfStock"},
		{name: "overconstrained in a zone", status: 409, body: wrapped("OverconstrainedZonalAllocationRequest", "Allocation failed."), want: overconstrainedZonal, reason: "OutOfStock"},
		{name: "overconstrained", status: 409, body: wrapped("OverconstrainedAllocationRequest", "Allocation failed."), want: overconstrained, reason: "OutOfStock"},
		{name: "size not sold here", status: 400, body: wrapped("InvalidParameter", "The requested VM size Standard_X1 is not available in the current region."), want: sizeNotSupported, reason: "Restricted"},
		{name: "size not sold to the subscription", status: 400, body: wrapped("BadRequest", "The VM size of Standard_X1 is not supported for subscription s"), want: sizeNotSupported, reason: "Restricted"},
		{name: "another bad parameter", status: 400, body: wrapped("InvalidParameter", "The value of parameter adminUsername is invalid."), want: otherRefusal, reason: "Other"},
		{name: "policy", status: 403, body: wrapped("RequestDisallowedByPolicy", "Resource 'x' was disallowed by policy."), want: disallowed, reason: "Restricted"},
		{name: "subnet full", status: 400, body: wrapped("SubnetIsFull", "Subnet aks-subnet with address prefix 10.0.0.0/28 does not have enough capacity for 1 IP addresses."), want: subnetFull, reason: "Network"},
		{name: "load balancer pool gone", status: 400, body: wrapped("InvalidResourceReference", "Resource p referenced by resource n was not found."), want: staleReference, reason: "Network"},
		{name: "NIC kept for another machine", status: 400, body: wrapped("NicReservedForAnotherVm", "Nic(s) in request is reserved for another Virtual Machine for 180 seconds."), want: inUse, reason: "Other"},
		{name: "image gone", status: 404, body: wrapped("GalleryImageNotFound", "The gallery image is not available in eastus region."), want: imageMissing, reason: "Other"},
		{name: "not found", status: 404, body: wrapped("ResourceNotFound", "The Resource was not found."), want: notFound, reason: "Other"},
		{name: "not found without a code", status: 404, body: ``, want: notFound, reason: "Other"},
		{name: "it exists", status: 412, body: wrapped("PreconditionFailed", "The condition specified was not met."), want: exists, reason: "Other"},
		{name: "it exists and differs", status: 409, body: wrapped("PropertyChangeNotAllowed", "Changing property 'zones' is not allowed."), want: exists, reason: "Other"},
		{name: "not allowed", status: 403, body: wrapped("AuthorizationFailed", "The client does not have authorization to perform action."), want: denied, reason: "Other"},
		{name: "subnet may not be joined", status: 403, body: wrapped("LinkedAuthorizationFailed", "The client has permission … but not on the linked scope."), want: denied, reason: "Other"},
		{name: "token expired", status: 401, body: wrapped("ExpiredAuthenticationToken", "The access token expiry is in the past."), want: denied, reason: "Other"},
		{name: "server error", status: 500, body: wrapped("InternalServerError", "Encountered internal server error."), want: transient, reason: "Other"},
		{name: "not even JSON", status: 503, body: `<html>upstream</html>`, want: transient, reason: "Other"},
		{name: "unheard of", status: 409, body: wrapped("BrandNewError", "Something else."), want: otherRefusal, reason: "Other"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := classify(armError(test.status, test.header, test.body))
			if r.kind != test.want || r.reason() != test.reason || r.limitIsZero != test.zero || r.retryAfter != test.after {
				t.Errorf("got %s, reason %s, zero %v, after %v; want %s, %s, %v, %v",
					r.kind, r.reason(), r.limitIsZero, r.retryAfter, test.want, test.reason, test.zero, test.after)
			}
			if strings.Contains(r.detail, "\n") || strings.Contains(r.detail, "arm.example") {
				t.Errorf("the detail is not one sentence: %q", r.detail)
			}
		})
	}
}

func TestClassifyBrokenConnection(t *testing.T) {
	if r := classify(errors.New("connection reset by peer")); r.kind != transient || r.ofOffer() {
		t.Errorf("a broken connection is %s; its outcome is unknown", r.kind)
	}
}
