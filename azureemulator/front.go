// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"
)

// front answers HTTP requests: it finds their route, and holds them against tokens, request
// limits and faults before the route's handler has them.
type front struct {
	routes    []route
	ledger    *ledger
	identity  *identity
	throttles *throttles
	faults    *faults
	sub       *subscription
	chance    *chance
	log       *slog.Logger
}

// ServeHTTP answers one request: authorise, throttle, inject faults, handle.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, params, refusal := f.find(r.Method, r.URL.Path)
	if refusal != nil {
		f.ledger.unknown()
		f.writeError(w, r, refusal)
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		f.writeError(w, r, err)
		return
	}
	req := &request{http: r, params: params, query: r.URL.Query(), body: body}
	serve := func(w http.ResponseWriter) { f.finish(w, r)(route.handle(req)) }
	switch {
	case route.isMetadata:
		if fault := f.faults.take(req, route); fault != nil {
			f.faults.strike(w, r, fault, serve)
			return
		}
		serve(w)
	case route.isAdmin:
		serve(w)
	default:
		f.serveAzure(w, req, route)
	}
}

func (f *front) serveAzure(w http.ResponseWriter, req *request, route *route) {
	if err := f.admit(req, route, w.Header()); err != nil {
		f.ledger.count(route, req, err)
		f.writeError(w, req.http, err)
		return
	}
	fault := f.faults.take(req, route)
	if fault != nil && fault.handles() {
		f.faults.strike(w, req.http, fault, func(w http.ResponseWriter) {
			rep, err := route.handle(req)
			f.ledger.count(route, req, err)
			f.finish(w, req.http)(rep, err)
		})
		return
	}
	if fault != nil && !fault.Lose {
		f.ledger.count(route, req, fault.refusal())
		f.writeError(w, req.http, fault.refusal())
		return
	}
	rep, err := route.handle(req)
	f.ledger.count(route, req, err)
	if fault != nil {
		f.writeError(w, req.http, fault.refusal())
		return
	}
	f.finish(w, req.http)(rep, err)
}

// admit is what stands before every handler of Azure's.
func (f *front) admit(req *request, route *route, header http.Header) error {
	if route.isOpen {
		return nil
	}
	if err := f.identity.authorise(req.http); err != nil {
		return err
	}
	if sub, scoped := req.params["subscription"]; scoped && !strings.EqualFold(sub, f.sub.id) {
		return notFound("SubscriptionNotFound", "The subscription '%s' could not be found.", sub)
	}
	if req.query.Get("api-version") == "" {
		return badRequest("MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.")
	}
	if err := f.throttles.admit(req, route, header); err != nil {
		return err
	}
	return nil
}

// find returns the route for a request and its parameters. A path that is
// known under another method is answered 405.
func (f *front) find(method, path string) (*route, map[string]string, *Error) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	known := false
	for i := range f.routes {
		params, matches := match(f.routes[i].pattern, segments)
		if matches && f.routes[i].method == method {
			return &f.routes[i], params, nil
		}
		known = known || matches
	}
	if known {
		return nil, nil, refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The HTTP method '%s' is not supported at path '%s'.", method, path)
	}
	return nil, nil, notFound("InvalidResourceType", "The path '%s' names no resource type that this emulator knows.", path)
}

func (f *front) finish(w http.ResponseWriter, r *http.Request) func(reply, error) {
	return func(rep reply, err error) {
		if err != nil {
			f.writeError(w, r, err)
			return
		}
		f.write(w, r, rep)
	}
}

// write sends a reply with the headers every Azure response carries.
func (f *front) write(w http.ResponseWriter, r *http.Request, rep reply) {
	header := w.Header()
	maps.Copy(header, rep.header)
	f.stampHeaders(header, r)
	raw := rep.raw
	if raw == nil && rep.body != nil {
		encoded, err := json.Marshal(rep.body)
		if err != nil {
			f.log.Error("encoding a reply", slog.String("path", r.URL.Path), slog.Any("error", err))
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		raw = encoded
	}
	if raw != nil && header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(rep.status)
	// A client that has gone away loses its reply, as with any server.
	_, _ = w.Write(raw)
}

func (f *front) writeError(w http.ResponseWriter, r *http.Request, err error) {
	refusal := asError(err)
	header := http.Header{}
	maps.Copy(header, refusal.header)
	header.Set("x-ms-error-code", refusal.Code)
	f.write(w, r, reply{status: refusal.Status, header: header, body: refusal.view()})
}

// stampHeaders adds the ids support staff ask for.
func (f *front) stampHeaders(header http.Header, r *http.Request) {
	correlation := r.Header.Get("x-ms-correlation-request-id")
	if correlation == "" {
		correlation = f.chance.uuid()
	}
	header.Set("x-ms-request-id", f.chance.uuid())
	header.Set("x-ms-correlation-request-id", correlation)
	header.Set("x-ms-routing-request-id", fmt.Sprintf("%s:%s:%s", strings.ToUpper(f.sub.location), time.Now().UTC().Format("20060102T150405Z"), correlation))
	header.Set("Cache-Control", "no-cache")
	header.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
	if id := r.Header.Get("x-ms-client-request-id"); id != "" && strings.EqualFold(r.Header.Get("x-ms-return-client-request-id"), "true") {
		header.Set("x-ms-client-request-id", id)
	}
}
