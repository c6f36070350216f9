// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// AnnotationOperation of a NodeClaim is the operation that creates its virtual machine, while it
// runs. After a restart karve reads from it why the creation failed.
const AnnotationOperation = "karve.dev/azure-operation"

// maxAnnotation is more than the length of Azure's URLs.
const maxAnnotation = 8 << 10

// operation is the JSON content of AnnotationOperation.
type operation struct {
	// URL is Azure's URL of the operation's status, without its signature: whoever may read NodeClaims
	// could use that.
	URL string `json:"url"`
	// Type, Zone and CapacityType are the requested offering.
	Type         string    `json:"type"`
	Zone         string    `json:"zone"`
	CapacityType string    `json:"capacityType"`
	Begun        time.Time `json:"begun"`
}

// operationAnnotation returns the annotation for an accepted creation; nil without a URL.
func operationAnnotation(accepted *http.Response, ref offering.Ref, now time.Time) map[string]string {
	if accepted == nil {
		return nil
	}
	unsigned, ok := withoutSignature(accepted.Header.Get("Azure-AsyncOperation"))
	if !ok {
		return nil
	}
	text, err := json.Marshal(operation{
		URL: unsigned, Type: ref.Type, Zone: ref.Zone, CapacityType: ref.CapacityType,
		Begun: now.UTC().Truncate(time.Second),
	})
	if err != nil || len(text) > maxAnnotation {
		return nil
	}
	return map[string]string{AnnotationOperation: string(text)}
}

// withoutSignature returns the URL with those parameters alone that name the operation; false if it is
// none. karve's own credentials are enough to read the status. If Azure refuses that, the reason of a
// failed creation is not known after a restart, and nothing else is lost.
func withoutSignature(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", false
	}
	kept := url.Values{}
	for _, name := range []string{"api-version", "p"} {
		if value := u.Query().Get(name); value != "" {
			kept.Set(name, value)
		}
	}
	u.RawQuery, u.Fragment, u.User = kept.Encode(), "", nil
	return u.String(), true
}

// recordedOperation returns the operation recorded in the claim, as LaunchState; nil when there is
// none.
func recordedOperation(claim provider.Claim) map[string]string {
	if text := claim.LaunchState[AnnotationOperation]; text != "" {
		return map[string]string{AnnotationOperation: text}
	}
	return nil
}

// withoutOperation returns the LaunchState that removes the operation from the claim.
func withoutOperation() map[string]string { return map[string]string{AnnotationOperation: ""} }

// recordedFailure reads why the operation recorded in the claim failed, with one request. It
// reports false when that is not known: the claim records none or that of another offering, or
// Azure no longer has it.
func (c *connection) recordedFailure(ctx context.Context, claim provider.Claim, ref offering.Ref) (armerr.Failure, bool) {
	var op operation
	if err := json.Unmarshal([]byte(claim.LaunchState[AnnotationOperation]), &op); err != nil {
		return armerr.Failure{}, false
	}
	if op.Type != ref.Type || op.Zone != ref.Zone || op.CapacityType != ref.CapacityType || !c.trusts(op.URL) {
		return armerr.Failure{}, false
	}
	req, err := runtime.NewRequest(ctx, http.MethodGet, op.URL)
	if err != nil {
		return armerr.Failure{}, false
	}
	resp, err := c.pipeline().Do(req)
	if err != nil {
		return armerr.Failure{}, false
	}
	body, err := runtime.Payload(resp)
	if err != nil || resp.StatusCode != http.StatusOK {
		return armerr.Failure{}, false
	}
	var status struct {
		Status string
		Error  struct{ Code, Message string }
	}
	if json.Unmarshal(body, &status) != nil || status.Status != stateFailed || status.Error.Code == "" {
		return armerr.Failure{}, false
	}
	return armerr.FromCode(status.Error.Code, status.Error.Message), true
}

// trusts reports whether a URL is one of Resource Manager's for this subscription. The request
// carries karve's credentials, and other users can write annotations.
func (c *connection) trusts(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil {
		return false
	}
	home, err := url.Parse(c.arm.Endpoint())
	if err != nil || u.Scheme != home.Scheme || !strings.EqualFold(u.Host, home.Host) {
		return false
	}
	prefix := "/subscriptions/" + c.subscription + "/providers/Microsoft.Compute/"
	return len(u.Path) > len(prefix) && strings.EqualFold(u.Path[:len(prefix)], prefix) && !strings.Contains(u.Path, "..")
}
