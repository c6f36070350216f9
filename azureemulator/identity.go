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
	tenant, client string
	// assertion is the federated token that proves the client; it is in the
	// token file.
	assertion string

	mu     sync.Mutex
	issued map[string]time.Time // bearer token → its end
	// revoked tokens were good once: they get a claims challenge, not a refusal.
	revoked map[string]time.Time
}

// tokenLife is how long a bearer token is good, in real time whatever the scale.
const tokenLife = time.Hour

func newIdentity(o Options) *identity {
	return &identity{
		tenant: o.TenantID, client: o.ClientID,
		assertion: unsignedJWT(map[string]any{
			"iss": "https://oidc.emulator/" + o.TenantID + "/", "aud": "api://AzureADTokenExchange",
			"sub": "system:serviceaccount:kube-system:karve", "jti": o.ClusterName,
		}),
		issued: map[string]time.Time{}, revoked: map[string]time.Time{},
	}
}

func unsignedJWT(claims map[string]any) string {
	part := func(v any) string {
		raw, _ := json.Marshal(v) // maps of strings and numbers always encode
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(map[string]any{"alg": "none", "typ": "JWT"}) + "." + part(claims) + ".emulator"
}

func (s *Server) discoverInstance(r *request) (reply, error) {
	host := strings.TrimPrefix(s.url, "https://")
	return ok(map[string]any{
		"tenant_discovery_endpoint": s.url + "/" + s.options.TenantID + "/v2.0/.well-known/openid-configuration",
		"api-version":               "1.1",
		"metadata":                  []any{map[string]any{"preferred_network": host, "preferred_cache": host, "aliases": []string{host}}},
	})
}

func (s *Server) discoverTenant(r *request) (reply, error) {
	base := s.url + "/" + r.params["tenant"]
	return ok(map[string]any{
		"token_endpoint":         base + "/oauth2/v2.0/token",
		"authorization_endpoint": base + "/oauth2/v2.0/authorize",
		"issuer":                 base + "/v2.0",
	})
}

func (s *Server) issueToken(r *request) (reply, error) {
	form, err := url.ParseQuery(string(r.body))
	if err != nil {
		return s.refuseToken(http.StatusBadRequest, "invalid_request", 900144, "The request body is not a form: "+err.Error())
	}
	switch {
	case !strings.EqualFold(r.params["tenant"], s.options.TenantID):
		return s.refuseToken(http.StatusBadRequest, "invalid_request", 90002, "Tenant '"+r.params["tenant"]+"' not found.")
	case form.Get("client_id") != s.options.ClientID:
		return s.refuseToken(http.StatusUnauthorized, "unauthorized_client", 700016, "Application with identifier '"+form.Get("client_id")+"' was not found in the directory.")
	case form.Get("grant_type") != "client_credentials":
		return s.refuseToken(http.StatusBadRequest, "unsupported_grant_type", 70003, "The app requested an unsupported grant type '"+form.Get("grant_type")+"'.")
	case strings.TrimSpace(form.Get("client_assertion")) != s.identity.assertion:
		return s.refuseToken(http.StatusUnauthorized, "invalid_client", 70021, "No matching federated identity record found for presented assertion.")
	}
	return ok(map[string]any{
		"token_type": "Bearer", "expires_in": int(tokenLife.Seconds()), "ext_expires_in": int(tokenLife.Seconds()),
		"access_token": s.identity.issue(s.chance.uuid(), time.Now()),
	})
}

// refuseToken answers in the OAuth form, which is not Resource Manager's.
func (s *Server) refuseToken(status int, code string, number int, message string) (reply, error) {
	now := time.Now().UTC()
	return answer(status, nil, map[string]any{
		"error": code, "error_codes": []int{number},
		"error_description": fmt.Sprintf("AADSTS%d: %s", number, message),
		"timestamp":         now.Format("2006-01-02 15:04:05Z"),
		"trace_id":          s.chance.uuid(), "correlation_id": s.chance.uuid(),
	})
}

func (i *identity) issue(id string, now time.Time) string {
	token := unsignedJWT(map[string]any{
		"tid": i.tenant, "appid": i.client, "oid": i.client, "uti": id,
		"iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	forget(i.issued, now)
	forget(i.revoked, now)
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
	if _, gone := i.revoked[token]; gone {
		return i.challenge("InvalidAuthenticationToken", "The access token has been revoked.", claimsChallenge)
	}
	end, known := i.issued[token]
	if !known {
		return i.challenge("InvalidAuthenticationToken", "The access token is invalid.", "")
	}
	if time.Now().After(end) {
		return i.challenge("ExpiredAuthenticationToken", "The access token expiry UTC time '"+stamp(end)+"' is earlier than current UTC time.", "")
	}
	return nil
}

// claimsChallenge asks for a token newer than the revocation (continuous
// access evaluation): the SDK answers it by fetching one and trying once more.
const claimsChallenge = `, error="insufficient_claims", claims="eyJhY2Nlc3NfdG9rZW4iOnsibmJmIjp7ImVzc2VudGlhbCI6dHJ1ZX19fQ=="`

func (i *identity) challenge(code, message, claims string) *Error {
	e := refuse(http.StatusUnauthorized, code, "%s", message)
	e.header = http.Header{"Www-Authenticate": {`Bearer realm="", authorization_uri="https://login.windows.net/` + i.tenant + `"` + claims}}
	return e
}

// RevokeTokens makes every bearer token issued so far useless. Clients are told
// so with a claims challenge.
func (s *Server) RevokeTokens() {
	s.identity.mu.Lock()
	defer s.identity.mu.Unlock()
	for token, end := range s.identity.issued {
		s.identity.revoked[token] = end
		delete(s.identity.issued, token)
	}
}

// ExpireTokens makes every bearer token issued so far too old, whatever was said of its end
// when it was issued, as when the clocks of who issues and who checks them differ.
func (s *Server) ExpireTokens() {
	s.identity.mu.Lock()
	defer s.identity.mu.Unlock()
	for token := range s.identity.issued {
		s.identity.issued[token] = time.Now().Add(-time.Second)
	}
}
