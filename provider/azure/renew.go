package azure

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

// A renewal is a credential that does not give out again what Azure has refused. The SDK's
// keep a token for as long as its issuer said that it is good, an hour or a day, even when
// Azure finds it too old already: when its signing key was withdrawn, or clocks differ.
// Only a refusal with a claims challenge makes them ask anew, and not every one has it.
type renewal struct {
	azcore.TokenCredential
	now func() time.Time

	mu      sync.Mutex
	refused string    // the token that was refused last; empty when there is none
	asked   time.Time // when a new one was asked for last
}

// renewEvery is how often a new token is asked for at most: while Azure refuses new ones as
// well, asking for more would only tire whoever issues them.
const renewEvery = 10 * time.Second

// GetToken is the credential's own, or a new one in place of what was refused.
func (r *renewal) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	kept, err := r.TokenCredential.GetToken(ctx, o)
	if err != nil || o.Claims != "" || !r.mustRenew(kept.Token) {
		return kept, err
	}
	// This is what Azure's own challenge asks for: a token that is not older than now. Whatever
	// has claims to meet is not answered from what is kept.
	o.Claims = fmt.Sprintf(`{"access_token":{"nbf":{"essential":true,"value":"%d"}}}`, r.now().Unix())
	renewed, err := r.TokenCredential.GetToken(ctx, o)
	if err != nil {
		return kept, nil // some credentials, for people, take no claims
	}
	return renewed, nil
}

func (r *renewal) mustRenew(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != r.refused || r.now().Sub(r.asked) < renewEvery {
		return false
	}
	r.asked = r.now()
	return true
}

// Do implements policy.Policy: it notices what is refused without a challenge. It belongs
// behind the policy that signs requests.
func (r *renewal) Do(req *policy.Request) (*http.Response, error) {
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

// challenges reports whether a refusal says which claims a token must meet; the SDK asks for
// such a token by itself.
func challenges(resp *http.Response) bool {
	return strings.Contains(strings.Join(resp.Header.Values("WWW-Authenticate"), " "), `claims="`)
}
