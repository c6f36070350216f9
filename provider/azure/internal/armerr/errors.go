// SPDX-License-Identifier: Apache-2.0

// Package armerr determines what an error of Azure means, and what karve does about it. ARM,
// Compute, Network and AKS report the same condition under several codes, and different
// conditions under one code: Classify reads the status, the code and the message, and returns a
// Failure. Other packages decide which failures are remembered, and where. The zero Failure means
// no error.
package armerr

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// A Failure is a classified ARM error.
type Failure struct {
	Kind          Kind
	Code          string // Azure's
	Detail        string // its message, shortened
	Advice        string // the next step; empty when the user need not act
	MissingAction string // the action that karve lacks permission for; empty when unknown
	LimitIsZero   bool   // the quota limit is zero
	RetryAfter    time.Duration
	Err           error
}

// Describe describes what was refused and what to do about it. The next step goes first, because
// the text may be cut off where it is shown.
func (r Failure) Describe() string {
	words := r.Code
	for _, more := range []string{r.Advice, r.Detail} {
		if more != "" {
			words += ": " + more
		}
	}
	return words
}

// Classify classifies the error of an ARM call; the zero refusal means no error. The HTTP status
// takes precedence over the code, and the code over phrases of the message: the code
// OperationNotAllowed alone can mean throttling, three kinds of quota, or a virtual machine in
// the wrong state.
func Classify(err error) Failure {
	if err == nil {
		return Failure{}
	}
	if all := new(SharedError); errors.As(err, &all) {
		return all.r
	}
	if detail := new(detailError); errors.As(err, &detail) {
		r := FromCode(detail.code, detail.message)
		r.Err = err
		return r
	}
	resp := ResponseOf(err)
	if resp == nil {
		return Failure{Kind: Transient, Code: "RequestFailed", Detail: Shorten(err.Error()), Advice: connectionAdvice(err), Err: err}
	}
	words := Message(resp)
	r := Failure{Code: resp.ErrorCode, Detail: Shorten(words), Err: err}
	if resp.RawResponse != nil {
		r.RetryAfter = ratelimit.RetryAfter(resp.RawResponse.Header)
	}
	if kind, decided := kindOfStatus(resp.StatusCode); decided {
		r.Kind = kind
		if r.Code == "" {
			r.Code = http.StatusText(resp.StatusCode)
		}
	} else {
		r.setMeaning(resp.ErrorCode, resp.Error())
	}
	if kind, plain := statusKinds[resp.StatusCode]; plain && r.Kind == OtherFailure {
		r.Kind = kind
	}
	r.setAdvice(words)
	return r
}

// connectionAdvice returns the next step after an error without an answer, if the user must act.
func connectionAdvice(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return "check the cluster's DNS and what karve's pod may reach: the name " + name.Name + " cannot be resolved"
	case errors.As(err, &certificate):
		return "check the clock of karve's node, and the authorities that karve trusts (SSL_CERT_FILE) if a proxy stands between it and Azure"
	}
	return ""
}

func ResponseOf(err error) *azcore.ResponseError {
	var resp *azcore.ResponseError
	if !errors.As(err, &resp) {
		return nil
	}
	return resp
}

// A SharedError is an error returned to many callers at once, already classified: the SDK's own
// errors are not safe for concurrent reads.
type SharedError struct {
	r    Failure
	text string
}

func (e *SharedError) Error() string { return e.text }

// Shareable returns an error that is safe for concurrent reads.
func Shareable(err error) error {
	if err == nil {
		return nil
	}
	e := &SharedError{r: Classify(err), text: err.Error()}
	e.r.Err = e
	return e
}

// A detailError is Azure's error for one of several resources in a request.
type detailError struct{ code, message string }

// OfResource returns the error that Azure reports for one of several resources in a request.
func OfResource(code, message string) error { return &detailError{code, message} }

func (e *detailError) Error() string { return e.code + ": " + e.message }

// statusKinds is the kind of an unknown code, by HTTP status.
var statusKinds = map[int]Kind{http.StatusNotFound: NotFound, http.StatusForbidden: Denied}

// setMeaning sets the kind by a code and its message.
func (r *Failure) setMeaning(code, text string) {
	m := MeaningOf(code, text)
	r.Kind = m.Kind
	r.LimitIsZero = r.Reaction().reason == ReasonQuota && strings.Contains(text, "Current Limit: 0,")
	r.RetryAfter = max(r.RetryAfter, m.wait)
}

// FromCode is like Classify for a code and message from another source, such as the status of a
// failed virtual machine.
func FromCode(code, text string) Failure {
	r := Failure{Code: code, Detail: Shorten(text), Err: fmt.Errorf("%s: %s", code, text)}
	r.setMeaning(code, text)
	r.setAdvice(text)
	return r
}

func kindOfStatus(status int) (Kind, bool) {
	switch status {
	case http.StatusTooManyRequests:
		return Throttled, true
	case http.StatusUnauthorized:
		return Denied, true
	case http.StatusPreconditionFailed:
		return Conflict, true
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Transient, true
	}
	return "", false
}

// Message returns the message of an ARM error body, wrapped or flat.
func Message(resp *azcore.ResponseError) string {
	if resp.RawResponse == nil {
		return ""
	}
	body, err := runtime.Payload(resp.RawResponse)
	if err != nil {
		return ""
	}
	var parsed struct {
		Message string
		Error   struct{ Message string }
	}
	if json.Unmarshal(body, &parsed) != nil {
		return ""
	}
	if parsed.Error.Message != "" {
		return parsed.Error.Message
	}
	return parsed.Message
}

// Shorten cuts a text to what fits in an event.
func Shorten(s string) string {
	const most = 400
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Wrap describes the failed call in one line: the SDK's own text of a refusal has many.
func Wrap(err error, format string, args ...any) error {
	act := fmt.Sprintf(format, args...)
	if !errors.As(err, new(*azcore.ResponseError)) {
		if advice := connectionAdvice(err); advice != "" {
			return fmt.Errorf("%s: %s: %w", act, advice, err)
		}
		return fmt.Errorf("%s: %w", act, err)
	}
	return &callError{act: act, failure: Classify(err)}
}

// A callError is a failed call that is not about capacity.
type callError struct {
	act     string
	failure Failure
}

func (e *callError) Error() string { return e.act + ": " + e.failure.Describe() }

func (e *callError) Unwrap() error { return e.failure.Err }
