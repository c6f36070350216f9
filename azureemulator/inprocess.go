// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// nowhere is the address of an emulator that does not listen. Nothing dials it:
// links in answers begin with it, and InProcess takes whatever it is given.
const nowhere = "https://azure.emulator"

// New makes an emulator that listens nowhere: InProcess is the only way to it,
// ClientOptions and Credential use that. It opens no socket, writes no file, and its
// goroutines belong to the caller of New, so it can live in a testing/synctest
// bubble; its clock is then the bubble's. Options.Addr and Dir are not used. It runs
// until ctx ends or Close is called.
func New(ctx context.Context, o Options) (*Server, error) {
	s, err := newServer(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("making the Azure emulator: %w", err)
	}
	s.closeWith(ctx)
	return s, nil
}

// InProcess carries requests to the emulator by calling it. An answer is there when
// Do returns; whatever takes Azure time is in the operations that requests start.
func (s *Server) InProcess() policy.Transporter { return inProcess{s} }

type inProcess struct{ server http.Handler }

// Do answers one request, for the SDK.
func (t inProcess) Do(req *http.Request) (*http.Response, error) { return t.RoundTrip(req) }

// RoundTrip answers one request, for http.Client.
func (t inProcess) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	w := &answerWriter{header: http.Header{}, broken: io.ErrUnexpectedEOF}
	defer func() {
		if broken := recover(); broken == http.ErrAbortHandler { //nolint:errorlint // the very value, as net/http has it
			resp, err = nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, w.broken)
		} else if broken != nil {
			panic(broken)
		}
	}()
	req = received(req)
	defer req.Body.Close()
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	t.server.ServeHTTP(w, req)
	return w.response(req), nil
}

// received is a request as a server reads it off the wire: names of headers have one
// spelling there, and there is always a body.
func received(req *http.Request) *http.Request {
	out := *req
	out.Header = http.Header{}
	for name, values := range req.Header {
		out.Header[http.CanonicalHeaderKey(name)] = values
	}
	if out.Body == nil {
		out.Body = http.NoBody
	}
	return &out
}

// answerWriter keeps an answer in memory.
type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
	broken error // why there is none, if there is none
	// dribbles is how long the body takes to be read.
	dribbles time.Duration
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *answerWriter) response(req *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	header := http.Header{}
	for name, values := range w.header { // names as a client reads them off the wire
		for _, v := range values {
			header.Add(name, v)
		}
	}
	if header.Get("Date") == "" {
		header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	size, body := int64(w.body.Len()), io.NopCloser(&w.body)
	if w.dribbles > 0 {
		body = &dribble{ctx: req.Context(), body: &w.body, piece: 1 + w.body.Len()/pieces, period: w.dribbles / pieces}
	}
	return &http.Response{
		StatusCode: w.status, Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: body, ContentLength: size, Request: req,
	}
}

// issuer is a credential that has its tokens from the emulator directly.
type issuer struct{ identity *identity }

// GetToken issues a token; any scope gets one.
func (c issuer) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if err := ctx.Err(); err != nil {
		return azcore.AccessToken{}, err
	}
	now := time.Now()
	return azcore.AccessToken{Token: c.identity.newToken(now), ExpiresOn: now.Add(tokenLife)}, nil
}
