// SPDX-License-Identifier: Apache-2.0

// Package token requests the tokens that requests to Azure carry: it renews karve's own when Azure
// refuses it, and caches the one for galleries that another tenant shares.
package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/provider/azure/internal/cached"
)

// auxiliaryHeader carries a token for resources that another tenant shares, beside karve's own
// credentials.
const auxiliaryHeader = "X-Ms-Authorization-Auxiliary"

// auxiliaryMargin is how long before its expiry a token is replaced; a creation takes seconds.
const auxiliaryMargin = 5 * time.Minute

// tokenTimeout is the timeout of a request for a token.
const tokenTimeout = 30 * time.Second

// maxTokenSize is in bytes; real tokens have two thousand.
const maxTokenSize = 64 << 10

// GalleryToken caches the token for AKS's shared galleries.
type GalleryToken struct {
	transport policy.Transporter
	url       string // empty: no token is needed
	audience  string
	cached.Env

	mu      sync.Mutex
	token   azcore.AccessToken
	request *cached.Request // nil while no request is in flight
	backoff cached.Backoff
}

// NewGalleryToken returns a cache of the token that url issues; an empty url means that none is
// needed.
func NewGalleryToken(url string, o *arm.ClientOptions, e cached.Env) *GalleryToken {
	a := &GalleryToken{transport: &http.Client{}, url: url, audience: resourceManagerAudience(o), Env: e}
	if o != nil && o.Transport != nil {
		a.transport = o.Transport
	}
	return a
}

// resourceManagerAudience returns the audience of tokens for Resource Manager.
func resourceManagerAudience(o *arm.ClientOptions) string {
	where := cloud.AzurePublic
	if o != nil && o.Cloud.Services != nil {
		where = o.Cloud
	}
	return strings.TrimSuffix(where.Services[cloud.ResourceManager].Audience, "/")
}

// WithToken returns a context whose requests may use the shared galleries. It waits only briefly:
// many launches may wait for the token, and deletions would wait behind them.
func (a *GalleryToken) WithToken(ctx context.Context) (context.Context, error) {
	if a.url == "" {
		return ctx, nil
	}
	if err := a.renew(ctx); err != nil && !a.valid() {
		return ctx, fmt.Errorf("asking %s for the right to use AKS's shared galleries: %w", a.url, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token.Token == "" {
		return ctx, errTokenRefused
	}
	return policy.WithHTTPHeader(ctx, http.Header{auxiliaryHeader: {"Bearer " + a.token.Token}}), nil
}

// errTokenRefused reports that Azure refused another creation with the token just now.
var errTokenRefused = errors.New("the right to use AKS's shared galleries was refused a moment ago: asking anew")

// renew requests a token when it is due.
func (a *GalleryToken) renew(ctx context.Context) error {
	a.mu.Lock()
	now := a.Now()
	switch {
	case a.token.Token != "" && !a.renewalDue(now) && a.token.ExpiresOn.Sub(now) > auxiliaryMargin:
		a.mu.Unlock()
		return nil
	case now.Before(a.backoff.Until):
		defer a.mu.Unlock()
		return a.backoff.Err
	case a.request == nil:
		request, lasting := cached.NewRequest(ctx, now)
		a.request = request
		a.Panics.Go(cached.PanicsName, func() { a.replace(lasting, request) })
	}
	request := a.request
	a.mu.Unlock()
	return request.WaitBriefly(ctx, now, a.Patience)
}

func (a *GalleryToken) replace(ctx context.Context, request *cached.Request) {
	var token azcore.AccessToken
	err := a.Panics.Do(cached.PanicsName, func() (err error) { token, err = a.requestToken(ctx); return err })
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.request = nil; err != nil {
		a.backoff.Failed(err, a.Now())
	} else {
		a.token, a.backoff = token, cached.Backoff{}
	}
	request.Finish(err)
}

// Stop cancels a request in flight.
func (a *GalleryToken) Stop() {
	a.mu.Lock()
	request := a.request
	a.mu.Unlock()
	request.Stop()
}

// renewalDue reports whether the token should be renewed before auxiliaryMargin. A token without
// RefreshOn is renewed only near its expiry.
func (a *GalleryToken) renewalDue(now time.Time) bool {
	return !a.token.RefreshOn.IsZero() && now.After(a.token.RefreshOn)
}

// valid reports whether the current token is valid for a creation, even if its renewal is due.
func (a *GalleryToken) valid() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token.Token != "" && a.token.ExpiresOn.Sub(a.Now()) > auxiliaryMargin
}

// Clear makes the next creation request a new token.
func (a *GalleryToken) Clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = azcore.AccessToken{}
}

func (a *GalleryToken) requestToken(ctx context.Context) (azcore.AccessToken, error) {
	var token azcore.AccessToken
	u, err := url.Parse(a.url)
	if err != nil {
		return token, err
	}
	q := u.Query()
	q.Set("scope", a.audience+"/.default")
	u.RawQuery = q.Encode()
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
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
