package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// auxiliaryHeader carries the right to use what another tenant shares, beside our own
// credentials.
const auxiliaryHeader = "X-Ms-Authorization-Auxiliary"

// auxiliaryMargin is how long before its end a token is replaced; a purchase takes seconds.
const auxiliaryMargin = 5 * time.Minute

// maxTokenSize is in bytes; real ones have two thousand.
const maxTokenSize = 64 << 10

// auxiliary keeps the token for AKS's shared galleries.
type auxiliary struct {
	transport policy.Transporter
	url       string // empty: no token is needed
	audience  string
	now       func() time.Time

	asking gate // held while asking and while looking at token
	token  azcore.AccessToken
}

func newAuxiliary(o *Options) *auxiliary {
	a := &auxiliary{transport: &http.Client{}, url: o.SharedGallery.TokenURL, audience: audienceOf(o.ClientOptions), now: o.Now, asking: newGate()}
	if o.ClientOptions != nil && o.ClientOptions.Transport != nil {
		a.transport = o.ClientOptions.Transport
	}
	return a
}

// audienceOf is whom tokens for Resource Manager are made out to.
func audienceOf(o *arm.ClientOptions) string {
	where := cloud.AzurePublic
	if o != nil && o.Cloud.Services != nil {
		where = o.Cloud
	}
	return strings.TrimSuffix(where.Services[cloud.ResourceManager].Audience, "/")
}

// allow returns a context whose requests may use the shared galleries.
func (a *auxiliary) allow(ctx context.Context) (context.Context, error) {
	if a.url == "" {
		return ctx, nil
	}
	if err := a.asking.lock(ctx); err != nil {
		return ctx, err
	}
	defer a.asking.unlock()
	if !a.good() {
		token, err := a.ask(ctx)
		if err != nil {
			return ctx, fmt.Errorf("asking %s for the right to use AKS's shared galleries: %w", a.url, err)
		}
		a.token = token
	}
	return policy.WithHTTPHeader(ctx, http.Header{auxiliaryHeader: {"Bearer " + a.token.Token}}), nil
}

func (a *auxiliary) good() bool {
	now := a.now()
	stale := !a.token.RefreshOn.IsZero() && now.After(a.token.RefreshOn)
	return a.token.Token != "" && !stale && a.token.ExpiresOn.Sub(now) > auxiliaryMargin
}

// forget has the next purchase ask anew.
func (a *auxiliary) forget(ctx context.Context) {
	if a.asking.lock(ctx) == nil {
		a.token = azcore.AccessToken{}
		a.asking.unlock()
	}
}

func (a *auxiliary) ask(ctx context.Context) (azcore.AccessToken, error) {
	var token azcore.AccessToken
	u, err := url.Parse(a.url)
	if err != nil {
		return token, err
	}
	q := u.Query()
	q.Set("scope", a.audience+"/.default")
	u.RawQuery = q.Encode()
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return token, err
	}
	resp, err := a.transport.Do(req)
	if err != nil {
		return token, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return token, fmt.Errorf("it answered %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxTokenSize)).Decode(&token); err != nil {
		return token, fmt.Errorf("reading its answer: %w", err)
	}
	if token.Token == "" {
		return token, errors.New("its answer holds no token")
	}
	return token, nil
}
