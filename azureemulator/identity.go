// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// identity is the part of Entra ID a workload identity needs: discovery, and a
// token endpoint that trades the federated token for a bearer token.
type identity struct {
	// assertion is the federated token that proves the client; it is in the
	// token file.
	assertion string

	mu     sync.Mutex
	issued map[string]time.Time // bearer token → its end
	// revoked tokens were good once: they get a claims challenge, not a refusal.
	revoked map[string]time.Time
	// aged tokens are too old before their time, and young ones not good before theirs: those
	// that are issued until youngUntil are not for so long.
	aged, young map[string]time.Time
	youngUntil  time.Time
	youngFor    time.Duration
	struck      *strikes
	sub         *subscription
	chance      *chance
}

// tokenLife is how long a bearer token is good, in real time whatever the scale.
const tokenLife = time.Hour

func newIdentity(sub *subscription, ids *chance, struck *strikes) *identity {
	return &identity{
		assertion: unsignedJWT(map[string]any{
			"iss": "https://oidc.emulator/" + sub.tenant + "/", "aud": "api://AzureADTokenExchange",
			"sub": "system:serviceaccount:kube-system:karve", "jti": sub.cluster,
		}),
		issued: map[string]time.Time{}, revoked: map[string]time.Time{}, aged: map[string]time.Time{}, young: map[string]time.Time{},
		struck: struck, sub: sub, chance: ids,
	}
}

func (i *identity) routes() []route {
	return []route{
		open("GET", "{tenant}/discovery/instance", "Identity.DiscoverInstance", i.discoverInstance),
		open("GET", "{tenant}/v2.0/.well-known/openid-configuration", "Identity.DiscoverTenant", i.discoverTenant),
		open("POST", "{tenant}/oauth2/v2.0/token", "Identity.Token", i.issueToken),
		open("GET", "sharedgallery/token", "SharedGallery.Token", i.issueSharedToken),
	}
}

func unsignedJWT(claims map[string]any) string {
	part := func(v any) string {
		raw, _ := json.Marshal(v) // maps of strings and numbers always encode
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(map[string]any{"alg": "none", "typ": "JWT"}) + "." + part(claims) + ".emulator"
}

func (i *identity) discoverInstance(r *request) (reply, error) {
	host := strings.TrimPrefix(i.sub.url, "https://")
	return ok(map[string]any{
		"tenant_discovery_endpoint": i.sub.url + "/" + i.sub.tenant + "/v2.0/.well-known/openid-configuration",
		"api-version":               "1.1",
		"metadata":                  []any{map[string]any{"preferred_network": host, "preferred_cache": host, "aliases": []string{host}}},
	})
}

func (i *identity) discoverTenant(r *request) (reply, error) {
	base := i.sub.url + "/" + r.params["tenant"]
	return ok(map[string]any{
		"token_endpoint":         base + "/oauth2/v2.0/token",
		"authorization_endpoint": base + "/oauth2/v2.0/authorize",
		"issuer":                 base + "/v2.0",
	})
}

func (i *identity) issueToken(r *request) (reply, error) {
	form, err := url.ParseQuery(string(r.body))
	if err != nil {
		return i.refuseToken(http.StatusBadRequest, "invalid_request", 900144, "The request body is not a form: "+err.Error())
	}
	switch {
	case !strings.EqualFold(r.params["tenant"], i.sub.tenant):
		return i.refuseToken(http.StatusBadRequest, "invalid_request", 90002, "Tenant '"+r.params["tenant"]+"' not found.")
	case form.Get("client_id") != i.sub.client:
		return i.refuseToken(http.StatusUnauthorized, "unauthorized_client", 700016, "Application with identifier '"+form.Get("client_id")+"' was not found in the directory.")
	case form.Get("grant_type") != "client_credentials":
		return i.refuseToken(http.StatusBadRequest, "unsupported_grant_type", 70003, "The app requested an unsupported grant type '"+form.Get("grant_type")+"'.")
	case strings.TrimSpace(form.Get("client_assertion")) != i.assertion:
		return i.refuseToken(http.StatusUnauthorized, "invalid_client", 70021, "No matching federated identity record found for presented assertion.")
	}
	return ok(map[string]any{
		"token_type": "Bearer", "expires_in": int(tokenLife.Seconds()), "ext_expires_in": int(tokenLife.Seconds()),
		"access_token": i.newToken(time.Now()),
	})
}

// refuseToken answers in the OAuth form, which is not Resource Manager's.
func (i *identity) refuseToken(status int, code string, number int, message string) (reply, error) {
	now := time.Now().UTC()
	return answer(status, nil, map[string]any{
		"error": code, "error_codes": []int{number},
		"error_description": fmt.Sprintf("AADSTS%d: %s", number, message),
		"timestamp":         now.Format("2006-01-02 15:04:05Z"),
		"trace_id":          i.chance.uuid(), "correlation_id": i.chance.uuid(),
	})
}

// newToken issues a token with an id of its own.
func (i *identity) newToken(now time.Time) string { return i.issue(i.chance.uuid(), now) }

func (i *identity) issue(id string, now time.Time) string {
	token := unsignedJWT(map[string]any{
		"tid": i.sub.tenant, "appid": i.sub.client, "oid": i.sub.client, "uti": id,
		"iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	forget(i.issued, now)
	forget(i.revoked, now)
	forget(i.aged, now)
	forget(i.young, now)
	if now.Before(i.youngUntil) {
		i.young[token] = now.Add(i.youngFor)
	}
	i.issued[token] = now.Add(tokenLife)
	return token
}

// forget drops tokens whose time is over.
func forget(tokens map[string]time.Time, now time.Time) {
	for token, end := range tokens {
		if now.After(end) {
			delete(tokens, token)
		}
	}
}

// authorise refuses a request without a bearer token that was issued here.
func (i *identity) authorise(r *http.Request) error {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return i.challenge("AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.", "")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if _, gone := i.revoked[token]; gone {
		i.struck.note(tokensRevoked)
		return i.challenge("InvalidAuthenticationToken", "The access token has been revoked.", claimsChallenge)
	}
	if _, old := i.aged[token]; old {
		i.struck.note(tokensExpired)
		return i.tooOld(now.Add(-time.Second))
	}
	if good, waits := i.young[token]; waits && now.Before(good) {
		i.struck.note(tokensNotYetValid)
		return i.challenge("InvalidAuthenticationToken", "The access token is not valid before UTC time '"+stamp(good)+"', which is later than current UTC time.", "")
	}
	end, known := i.issued[token]
	if !known {
		return i.challenge("InvalidAuthenticationToken", "The access token is invalid.", "")
	}
	if now.After(end) {
		return i.tooOld(end)
	}
	return nil
}

func (i *identity) tooOld(end time.Time) *Error {
	return i.challenge("ExpiredAuthenticationToken", "The access token expiry UTC time '"+stamp(end)+"' is earlier than current UTC time.", "")
}

// What faults do to tokens.
const (
	tokensRevoked     = "TokensRevoked"
	tokensExpired     = "TokensExpired"
	tokensNotYetValid = "TokensNotYetValid"
)

// claimsChallenge asks for a token newer than the revocation (continuous
// access evaluation): the SDK answers it by fetching one and trying once more.
const claimsChallenge = `, error="insufficient_claims", claims="eyJhY2Nlc3NfdG9rZW4iOnsibmJmIjp7ImVzc2VudGlhbCI6dHJ1ZX19fQ=="`

func (i *identity) challenge(code, message, claims string) *Error {
	e := refuse(http.StatusUnauthorized, code, "%s", message)
	e.header = http.Header{"Www-Authenticate": {`Bearer realm="", authorization_uri="https://login.windows.net/` + i.sub.tenant + `"` + claims}}
	return e
}

// revoke makes every bearer token issued so far useless. Clients see
// a claims challenge.
func (i *identity) revoke() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for token, end := range i.issued {
		i.revoked[token] = end
		delete(i.issued, token)
	}
}

// expire makes every bearer token issued so far too old, whatever was said of its end
// when it was issued, as when the clocks of who issues and who checks them differ.
func (i *identity) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for token, end := range i.issued {
		i.aged[token] = end
		delete(i.issued, token)
	}
}

// issueAhead makes every bearer token useless that was issued so far, and those that are issued
// within d good only d after they were: the clock of who issues them is ahead of the one of who
// checks them.
func (i *identity) issueAhead(d time.Duration) {
	i.expire()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.youngUntil, i.youngFor = time.Now().Add(d), d
}

// authoriseShared refuses to start a VM from a shared gallery without the right to.
func (i *identity) authoriseShared(r *request, w vmRequest) error {
	id := w.spec.Properties.StorageProfile.ImageReference.ID
	if !strings.HasPrefix(strings.ToLower(id), "/subscriptions/"+sharedSubscription+"/") {
		return nil
	}
	other := &http.Request{Header: http.Header{"Authorization": r.http.Header["X-Ms-Authorization-Auxiliary"]}}
	if i.authorise(other) == nil {
		return nil
	}
	return refuse(http.StatusForbidden, "LinkedAuthorizationFailed",
		"The client has permission to perform action 'Microsoft.Compute/galleries/images/versions/read' on scope '%s', however the current tenant '%s' is not authorized to access linked subscription '%s'.",
		id, i.sub.tenant, sharedSubscription)
}

// issueSharedToken answers in the form of the SDK's own struct, as AKS's server does.
func (i *identity) issueSharedToken(r *request) (reply, error) {
	scope := r.query.Get("scope")
	if !strings.HasSuffix(scope, "/.default") {
		return reply{}, badRequest("InvalidScope", "The scope '%s' is not of the form <audience>/.default.", scope)
	}
	now := time.Now().UTC()
	return ok(map[string]any{
		"Token": i.issue("shared-"+i.chance.uuid(), now), "ExpiresOn": now.Add(tokenLife), "RefreshOn": now.Add(tokenLife / 2),
	})
}
