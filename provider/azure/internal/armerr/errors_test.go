// SPDX-License-Identifier: Apache-2.0

package armerr

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/engine/offering"
)

// answer returns the error that the SDK makes of an HTTP response.
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

// A row for each code, and some for errors without a code or with other texts.
//
// Rule REFUSAL-2. Rule REFUSAL-1.
func TestClassify(t *testing.T) {
	wrapped := func(code, message string) string {
		return `{"error":{"code":"` + code + `","message":"` + message + `"}}`
	}
	seen := map[meaning]bool{}
	for _, test := range []struct {
		name   string
		status int
		header string
		body   string
		want   Kind
		reason string
		zero   bool
		after  time.Duration
		avoid  Extent // none: another offering would get the same error
		rest   time.Duration
	}{
		{name: "family quota", status: 409, body: quotaBody("standardDSv5Family Cores", "100"), want: FamilyQuota, reason: "Quota", avoid: ThisFamily, rest: 10 * time.Minute},
		{name: "family quota of nothing", status: 409, body: quotaBody("standardNCADSA100v4Family Cores", "0"), want: FamilyQuota, reason: "Quota", zero: true, avoid: ThisFamily, rest: time.Hour},
		{name: "family whose name lacks the word", status: 409, body: quotaBody("Standard NDASv4_A100 Family Cores", "10"), want: FamilyQuota, reason: "Quota", avoid: ThisFamily, rest: 10 * time.Minute},
		{name: "regional quota", status: 409, body: quotaBody("Total Regional Cores", "100"), want: RegionalQuota, reason: "Quota", avoid: ThisCapacityType, rest: 10 * time.Minute},
		{name: "quota of machines", status: 409, body: quotaBody("Virtual Machines", "25000"), want: VMQuota, reason: "Quota", avoid: Everything, rest: 10 * time.Minute},
		{name: "spot quota, in words", status: 409, body: quotaBody("Low Priority Cores", "100"), want: SpotQuota, reason: "Quota", avoid: ThisCapacityType, rest: 10 * time.Minute},
		{name: "spot quota, in the link only", status: 409, body: wrapped("OperationNotAllowed", "exceeding approved standardDSv5Family Cores quota, see https://x?LowPriorityCores"), want: SpotQuota, reason: "Quota", avoid: ThisCapacityType, rest: 10 * time.Minute},
		{name: "an operation in the wrong state", status: 409, body: wrapped("OperationNotAllowed", "VM is deallocated"), want: OtherFailure, reason: "Other", avoid: ThisOffering, rest: 3 * time.Minute},
		{name: "compute throttling, flat, with the code of quota", status: 429, header: "Retry-After: 1200",
			body: `{"code":"OperationNotAllowed","message":"The server rejected the request because too many requests have been received for this subscription.","details":[{"code":"TooManyRequests","target":"HighCostGet30Min","message":"{}"}]}`,
			want: Throttled, reason: "Throttled", after: 20 * time.Minute},
		{name: "ARM throttling", status: 429, header: "x-ms-retry-after-ms: 250", body: wrapped("SubscriptionRequestsThrottled", "Please try again after '17' seconds."), want: Throttled, reason: "Throttled", after: 250 * time.Millisecond},
		{name: "size out of stock", status: 409, body: wrapped("SkuNotAvailable", "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: Standard_D4s_v5' is currently not available in location 'eastus'."), want: SkuNotAvailable, reason: "OutOfStock", avoid: ThisSizeInScope, rest: 23 * time.Hour},
		{name: "zone out of stock", status: 409, body: wrapped("ZonalAllocationFailed", "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone."), want: ZonalAllocation, reason: "OutOfStock", avoid: ThisFamilyInZone, rest: time.Hour},
		{name: "zone out of stock, told by an operation", status: 200, body: `{"status":"Failed","error":{"code":"ZonalAllocationFailed","message":"Allocation failed."}}`, want: ZonalAllocation, reason: "OutOfStock", avoid: ThisFamilyInZone, rest: time.Hour},
		{name: "region out of stock", status: 409, body: wrapped("AllocationFailed", "Allocation failed. The cluster is out of capacity."), want: Allocation, reason: "OutOfStock", avoid: ThisFamilyInScope, rest: time.Hour},
		{name: "overconstrained in a zone", status: 409, body: wrapped("OverconstrainedZonalAllocationRequest", "Allocation failed."), want: OverconstrainedZonal, reason: "OutOfStock", avoid: ThisOffering, rest: time.Hour},
		{name: "overconstrained", status: 409, body: wrapped("OverconstrainedAllocationRequest", "Allocation failed."), want: Overconstrained, reason: "OutOfStock", avoid: ThisSizeInScope, rest: time.Hour},
		{name: "size not sold here", status: 400, body: wrapped("InvalidParameter", "The requested VM size Standard_X1 is not available in the current region."), want: SizeNotSupported, reason: "Restricted", avoid: ThisSize, rest: 23 * time.Hour},
		{name: "size not sold to the subscription", status: 400, body: wrapped("BadRequest", "The VM size of Standard_X1 is not supported for subscription s"), want: SizeNotSupported, reason: "Restricted", avoid: ThisSize, rest: 23 * time.Hour},
		{name: "another bad parameter", status: 400, body: wrapped("InvalidParameter", "The value of parameter adminUsername is invalid."), want: OtherFailure, reason: "Other", avoid: ThisOffering, rest: 3 * time.Minute},
		{name: "policy", status: 403, body: wrapped("RequestDisallowedByPolicy", "Resource 'x' was disallowed by policy."), want: Disallowed, reason: "Restricted", avoid: ThisSize, rest: 10 * time.Minute},
		{name: "subnet full", status: 400, body: wrapped("SubnetIsFull", "Subnet aks-subnet with address prefix 10.0.0.0/28 does not have enough capacity for 1 IP addresses."), want: SubnetFull, reason: "Network", avoid: ThisSubnet, rest: time.Minute},
		{name: "load balancer pool gone", status: 400, body: wrapped("InvalidResourceReference", "Resource p referenced by resource n was not found."), want: StaleReference, reason: "Network", after: 10 * time.Second},
		{name: "NIC kept for another VM", status: 400, body: wrapped("NicReservedForAnotherVm", "Nic(s) in request is reserved for another Virtual Machine for 180 seconds."), want: InUse, reason: "Other", after: 30 * time.Second},
		{name: "image gone", status: 404, body: wrapped("GalleryImageNotFound", "The gallery image is not available in eastus region."), want: ImageMissing, reason: "Other"},
		{name: "not found", status: 404, body: wrapped("ResourceNotFound", "The Resource was not found."), want: NotFound, reason: "Other"},
		{name: "not found without a code", status: 404, body: ``, want: NotFound, reason: "Other"},
		{name: "it exists", status: 412, body: wrapped("PreconditionFailed", "The condition specified was not met."), want: Conflict, reason: "Other"},
		{name: "it exists and differs", status: 409, body: wrapped("PropertyChangeNotAllowed", "Changing property 'zones' is not allowed."), want: Conflict, reason: "Other"},
		{name: "not allowed", status: 403, body: wrapped("AuthorizationFailed", "The client does not have authorization to perform action."), want: Denied, reason: "Other"},
		{name: "subnet may not be joined", status: 403, body: wrapped("LinkedAuthorizationFailed", "The client has permission … but not on the linked scope."), want: Denied, reason: "Other"},
		{name: "token expired", status: 401, body: wrapped("ExpiredAuthenticationToken", "The access token expiry is in the past."), want: Denied, reason: "Other"},
		{name: "server error", status: 500, body: wrapped("InternalServerError", "Encountered internal server error."), want: Transient, reason: "Other"},
		{name: "not even JSON", status: 503, body: `<html>upstream</html>`, want: Transient, reason: "Other"},
		{name: "quota told by the machine API", status: 200, body: wrapped("QuotaExceeded", "Code=\\\"OperationNotAllowed\\\" Message=\\\"exceeding approved LowPriorityCores quota\\\""), want: SpotQuota, reason: "Quota", avoid: ThisCapacityType, rest: 10 * time.Minute},
		{name: "its family's", status: 200, body: wrapped("QuotaExceeded", "exceeding approved standardDSv5Family Cores quota"), want: FamilyQuota, reason: "Quota", avoid: ThisFamily, rest: 10 * time.Minute},
		{name: "its region's", status: 200, body: wrapped("QuotaExceeded", "exceeding approved Total Regional Cores quota"), want: RegionalQuota, reason: "Quota", avoid: ThisCapacityType, rest: 10 * time.Minute},
		{name: "its machines'", status: 200, body: wrapped("QuotaExceeded", "exceeding approved Virtual Machines quota"), want: VMQuota, reason: "Quota", avoid: Everything, rest: 10 * time.Minute},
		{name: "its spot quota in words", status: 200, body: wrapped("QuotaExceeded", "exceeding approved Low Priority Cores quota"), want: SpotQuota, reason: "Quota", avoid: ThisCapacityType, rest: 10 * time.Minute},
		{name: "size the machine API does not take", status: 400, body: `{"code":"VMSizeNotSupported","message":"The VM size is not supported."}`, want: SizeNotSupported, reason: "Restricted", avoid: ThisSize, rest: 23 * time.Hour},
		{name: "size not sold to the subscription, said otherwise", status: 400, body: wrapped("InvalidParameter", "The VM size of Standard_X1 is not supported for subscription s"), want: SizeNotSupported, reason: "Restricted", avoid: ThisSize, rest: 23 * time.Hour},
		{name: "no such AKS machine", status: 400, body: `{"code":"InvalidParameter","message":"Cannot find any valid machines to delete in agent pool p"}`, want: NotFound, reason: "Other"},
		{name: "spot dearer than the maximum", status: 409, body: wrapped("SpotPriceGreaterThanProvidedMaxPrice", "the provided max price '0.01 USD' is lower than the current spot price '0.02 USD' for Azure Spot VM size 'x'."), want: SpotPrice, reason: "Restricted", avoid: ThisSizeAsSpot, rest: 10 * time.Minute},
		{name: "size never spot", status: 400, body: wrapped("AzureSpotIsNotSupportedForThisVMSize", "Azure Spot is not supported for this VM size."), want: SpotTerms, reason: "Restricted", avoid: ThisSizeAsSpot, rest: time.Hour},
		{name: "subscription without spot", status: 400, body: wrapped("AzureSpotFeatureNotEnabledForSubscription", "The Azure Spot feature is not enabled for this subscription."), want: SpotTerms, reason: "Restricted", avoid: ThisSizeAsSpot, rest: time.Hour},
		{name: "spot without ephemeral disks", status: 400, body: wrapped("EphemeralOSDisksNotSupportedForSpotVMs", "Ephemeral OS disks are not supported for Azure Spot VMs."), want: SpotTerms, reason: "Restricted", avoid: ThisSizeAsSpot, rest: time.Hour},
		{name: "eviction policy", status: 400, body: wrapped("EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines", "Eviction policy can be set only on Azure Spot Virtual Machines."), want: SpotTerms, reason: "Restricted", avoid: ThisSizeAsSpot, rest: time.Hour},
		{name: "priority", status: 400, body: wrapped("VMPriorityCannotBeApplied", "The specified priority value 'Spot' cannot be applied."), want: SpotTerms, reason: "Restricted", avoid: ThisSizeAsSpot, rest: time.Hour},
		{name: "billing profile and priority at odds", status: 400, body: wrapped("ConflictingUserInput", "The billing profile is for Azure Spot machines only."), want: SpotTerms, reason: "Restricted", avoid: ThisSizeAsSpot, rest: time.Hour},
		{name: "a request at odds with what is there", status: 409, body: wrapped("ConflictingUserInput", "Disk x already exists in resource group g."), want: OtherFailure, reason: "Other", avoid: ThisOffering, rest: 3 * time.Minute},
		{name: "subnet too small", status: 400, body: wrapped("InsufficientSubnetSize", "Subnet too small."), want: SubnetFull, reason: "Network", avoid: ThisSubnet, rest: time.Minute},
		{name: "NIC in use", status: 400, body: wrapped("NicInUse", "Network Interface n is used by existing resource v."), want: InUse, reason: "Other"},
		{name: "network busy", status: 409, body: wrapped("AnotherOperationInProgress", "Another operation on this or dependent resource is in progress."), want: InUse, reason: "Other"},
		{name: "AKS changes the pool", status: 409, body: `{"code":"OperationNotAllowed","message":"Operation is not allowed: Another agentpool operation (machines - Updating) is in progress, please wait for it to finish before starting a new operation."}`, want: InUse, reason: "Other", after: 30 * time.Second},
		{name: "AKS changes the cluster", status: 409, body: wrapped("OperationNotAllowed", "Another operation (Upgrading) is in progress."), want: InUse, reason: "Other", after: 30 * time.Second},
		{name: "network to be asked again", status: 409, body: wrapped("RetryableError", "A retryable error occurred."), want: InUse, reason: "Other"},
		{name: "network locked", status: 409, header: "Retry-After: 10", body: wrapped("RetryableErrorDueToAnotherOperation", "Operation was preempted."), want: InUse, reason: "Other", after: 10 * time.Second},
		{name: "network locked, as throttling", status: 429, header: "Retry-After: 10", body: wrapped("RetryableError", "A retryable error occurred."), want: Throttled, reason: "Throttled", after: 10 * time.Second},
		{name: "image gone from its region", status: 400, body: wrapped("ImageNotFound", "The image is not available in eastus region."), want: ImageMissing, reason: "Other"},
		{name: "image that AKS does not have", status: 400, body: `{"code":"InvalidParameter","message":"The node image version AKSUbuntu-2204gen2containerd-202511.02.0 is not available."}`, want: ImageMissing, reason: "Other"},
		{name: "image withdrawn", status: 404, body: wrapped("PlatformImageNotFound", "The platform image is not available."), want: ImageMissing, reason: "Other"},
		{name: "system that never reported", status: 200, body: `{"status":"Failed","error":{"code":"OSProvisioningTimedOut","message":"OS Provisioning for VM 'x' did not finish in the allotted time."}}`, want: BootFailed, reason: "Other", avoid: ThisOffering, rest: 10 * time.Minute},
		{name: "extension", status: 409, body: wrapped("VMExtensionProvisioningError", "VM has reported a failure when processing extension x."), want: extensionFailed, reason: "Other"},
		{name: "slow extension", status: 409, body: wrapped("VMExtensionProvisioningTimeout", "Provisioning of VM extension x has timed out."), want: extensionFailed, reason: "Other"},
		{name: "extension for good", status: 409, body: wrapped("VMExtensionHandlerNonTransientError", "The handler has failed."), want: extensionFailed, reason: "Other"},
		{name: "it exists, told late", status: 200, body: wrapped("PreconditionFailed", "Etag mismatch."), want: Conflict, reason: "Other"},
		{name: "it exists otherwise", status: 409, body: wrapped("Conflict", "It exists."), want: Conflict, reason: "Other"},
		{name: "no resource group", status: 404, body: wrapped("ResourceGroupNotFound", "Resource group 'g' could not be found."), want: NotFound, reason: "Other"},
		{name: "no parent", status: 404, body: wrapped("ParentResourceNotFound", "Can not perform requested operation on nested resource."), want: NotFound, reason: "Other"},
		{name: "AKS finds nothing", status: 404, body: `{"code":"NotFound","message":"Could not find agent pool."}`, want: NotFound, reason: "Other"},
		{name: "forbidden without a code", status: 403, body: ``, want: Denied, reason: "Other"},
		{name: "token invalid", status: 401, body: wrapped("InvalidAuthenticationToken", "The access token is invalid."), want: Denied, reason: "Other"},
		{name: "token invalid, told late", status: 200, body: wrapped("InvalidAuthenticationToken", "The access token is invalid."), want: Denied, reason: "Other"},
		{name: "token expired, told late", status: 200, body: wrapped("ExpiredAuthenticationToken", "It has expired."), want: Denied, reason: "Other"},
		{name: "throttled, told late", status: 200, body: wrapped("TooManyRequests", "Too many."), want: Throttled, reason: "Throttled"},
		{name: "ARM throttling, told late", status: 200, body: wrapped("SubscriptionRequestsThrottled", "Too many."), want: Throttled, reason: "Throttled"},
		{name: "AKS throttling", status: 429, body: `{"code":"ResourceRequestsThrottled","message":"Too many."}`, want: Throttled, reason: "Throttled"},
		{name: "AKS throttling, told late", status: 200, body: wrapped("ResourceRequestsThrottled", "Too many."), want: Throttled, reason: "Throttled"},
		{name: "server error, told late", status: 200, body: wrapped("InternalServerError", "Sorry."), want: Transient, reason: "Other"},
		{name: "execution error", status: 200, body: wrapped("InternalExecutionError", "An internal execution error occurred."), want: Transient, reason: "Other"},
		{name: "unavailable, told late", status: 200, body: wrapped("ServiceUnavailable", "Sorry."), want: Transient, reason: "Other"},
		{name: "gateway, told late", status: 200, body: wrapped("GatewayTimeout", "Sorry."), want: Transient, reason: "Other"},
		{name: "unheard of", status: 409, body: wrapped("BrandNewError", "Something else."), want: OtherFailure, reason: "Other", avoid: ThisOffering, rest: 3 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := armError(test.status, test.header, test.body)
			r := Classify(err)
			seen[MeaningOf(r.Code, err.Error())] = true
			if r.Kind != test.want || r.Reason() != test.reason || r.LimitIsZero != test.zero || r.RetryAfter != test.after {
				t.Errorf("got %s, reason %s, zero %v, after %v; want %s, %s, %v, %v",
					r.Kind, r.Reason(), r.LimitIsZero, r.RetryAfter, test.want, test.reason, test.zero, test.after)
			}
			if r.Reaction().Blocks != test.avoid || r.AboutOffering() != (test.avoid != "") || r.BlockedFor(offering.OnDemand) != test.rest {
				t.Errorf("%q rests for %v, want %q for %v", r.Reaction().Blocks, r.BlockedFor(offering.OnDemand), test.avoid, test.rest)
			}
			if strings.Contains(r.Detail, "\n") || strings.Contains(r.Detail, "arm.example") {
				t.Errorf("the detail is not one sentence: %q", r.Detail)
			}
		})
	}
	for _, m := range meanings {
		if !seen[m] {
			t.Errorf("no row is about %s %q", m.code, m.contains)
		}
	}
}

func TestEveryKindHasAReaction(t *testing.T) {
	for _, m := range meanings {
		c, known := reactions[m.Kind]
		if !known || c.reason == "" || (c.Blocks == "") != (c.For == 0) {
			t.Errorf("%s: %+v", m.Kind, c)
		}
	}
}

func TestClassifyBrokenConnection(t *testing.T) {
	if r := Classify(errors.New("connection reset by peer")); r.Kind != Transient || r.AboutOffering() || r.Advice != "" {
		t.Errorf("a broken connection is %s, and to be done is %q; its outcome is unknown", r.Kind, r.Advice)
	}
}

// If karve cannot reach Azure, the error says what to check, unless the cause is Azure's.
//
// Rule REQUEST-9.
func TestNoWayToAzureSaysWhatToCheck(t *testing.T) {
	for says, err := range map[string]error{
		"DNS":           &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "management.azure.com", IsNotFound: true}},
		"SSL_CERT_FILE": &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
	} {
		err = &url.Error{Op: "Get", URL: "https://management.azure.com", Err: err}
		if r := Classify(err); r.Kind != Transient || r.AboutOffering() || !strings.Contains(r.Describe(), says) {
			t.Errorf("%v is %s: %s", err, r.Kind, r.Describe())
		}
		if detail := Wrap(err, "listing VMs").Error(); !strings.Contains(detail, says) || !strings.Contains(detail, err.Error()) {
			t.Errorf("listing VMs says %q", detail)
		}
	}
}
