// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// A Renewal is a credential that does not return a token again that Azure has refused. The SDK's
// credentials keep a token for the validity that its issuer stated, an hour or a day, even when
// Azure already refuses it: when its signing key was withdrawn, or clocks differ. Only a refusal
// with a claims challenge makes them request a new one, and not every refusal has it.
type Renewal struct {
	azcore.TokenCredential
	now func() time.Time

	mu          sync.Mutex
	refused     string    // the last refused token; empty when there is none
	requestedAt time.Time // last request of a new one
}

// NewRenewal returns the credential as a renewal.
func NewRenewal(credential azcore.TokenCredential, now func() time.Time) *Renewal {
	return &Renewal{TokenCredential: credential, now: now}
}

// renewEvery is the minimum interval between requests of a new token: while Azure refuses new
// ones as well, more requests would only load the token issuer.
const renewEvery = 10 * time.Second

// GetToken returns the credential's token, or a new one in place of a refused one.
func (r *Renewal) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	kept, err := r.TokenCredential.GetToken(ctx, o)
	if err != nil || o.Claims != "" || !r.mustRenew(kept.Token) {
		return kept, err
	}
	// Azure's own challenge has this form: it demands a token that is not older than now. The
	// credential does not answer a request with claims from its cache.
	o.Claims = fmt.Sprintf(`{"access_token":{"nbf":{"essential":true,"value":"%d"}}}`, r.now().Unix())
	renewed, err := r.TokenCredential.GetToken(ctx, o)
	if err != nil {
		return kept, nil // some credentials, for users, accept no claims
	}
	return renewed, nil
}

func (r *Renewal) mustRenew(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != r.refused || r.now().Sub(r.requestedAt) < renewEvery {
		return false
	}
	r.requestedAt = r.now()
	return true
}

// Do implements policy.Policy: it records tokens that are refused without a challenge. It
// belongs behind the policy that signs requests.
func (r *Renewal) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	if err == nil && resp.StatusCode == http.StatusUnauthorized && !challenges(resp) {
		if token, signed := strings.CutPrefix(req.Raw().Header.Get("Authorization"), "Bearer "); signed {
			r.mu.Lock()
			r.refused = token
			r.mu.Unlock()
		}
	}
	return resp, err
}

// challenges reports whether a refusal says which claims a token must meet; the SDK requests
// such a token by itself.
func challenges(resp *http.Response) bool {
	return strings.Contains(strings.Join(resp.Header.Values("WWW-Authenticate"), " "), `claims="`)
}
