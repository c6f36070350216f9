package azure

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

// A refusal is a classified ARM error.
type refusal struct {
	kind        kind
	code        string // Azure's
	detail      string // its message, shortened
	advice      string // the next step; empty when the user need not act
	lacks       string // the action that karve lacks permission for; empty when unknown
	limitIsZero bool   // the quota limit is zero
	retryAfter  time.Duration
	err         error
}

// words describes what was refused and what to do about it. The next step goes first, because
// the text may be cut off where it is shown.
func (r refusal) words() string {
	words := r.code
	for _, more := range []string{r.advice, r.detail} {
		if more != "" {
			words += ": " + more
		}
	}
	return words
}

// classify classifies the error of an ARM call; the zero refusal means no error. The HTTP status
// takes precedence over the code, and the code over phrases of the message: the code
// OperationNotAllowed alone can mean throttling, three kinds of quota, or a virtual machine in
// the wrong state.
func classify(err error) refusal {
	if err == nil {
		return refusal{}
	}
	if all := new(sharedError); errors.As(err, &all) {
		return all.r
	}
	if told := new(detailError); errors.As(err, &told) {
		r := understand(told.code, told.message)
		r.err = err
		return r
	}
	resp := responseOf(err)
	if resp == nil {
		return refusal{kind: transient, code: "RequestFailed", detail: shorten(err.Error()), advice: unreached(err), err: err}
	}
	words := message(resp)
	r := refusal{code: resp.ErrorCode, detail: shorten(words), err: err}
	if resp.RawResponse != nil {
		r.retryAfter = ratelimit.RetryAfter(resp.RawResponse.Header)
	}
	if kind, decided := byStatus(resp.StatusCode); decided {
		r.kind = kind
		if r.code == "" {
			r.code = http.StatusText(resp.StatusCode)
		}
	} else {
		r.read(resp.ErrorCode, resp.Error())
	}
	if kind, plain := plainStatus[resp.StatusCode]; plain && r.kind == otherRefusal {
		r.kind = kind
	}
	r.advise(words)
	return r
}

// unreached returns the next step after an error without an answer, if the user must act.
func unreached(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return "check the cluster's DNS and what karve's pod may reach: nobody knows the name " + name.Name
	case errors.As(err, &certificate):
		return "check the clock of karve's node, and the authorities that karve trusts (SSL_CERT_FILE) if a proxy stands between it and Azure"
	}
	return ""
}

func responseOf(err error) *azcore.ResponseError {
	var resp *azcore.ResponseError
	if !errors.As(err, &resp) {
		return nil
	}
	return resp
}

// A sharedError is an error returned to many callers at once, already classified: the SDK's own
// errors are not safe for concurrent reads.
type sharedError struct {
	r    refusal
	text string
}

func (e *sharedError) Error() string { return e.text }

// shared returns an error that is safe for concurrent reads.
func shared(err error) error {
	if err == nil {
		return nil
	}
	e := &sharedError{r: classify(err), text: err.Error()}
	e.r.err = e
	return e
}

// A detailError is Azure's error for one of several resources in a request.
type detailError struct{ code, message string }

func (e *detailError) Error() string { return e.code + ": " + e.message }

// plainStatus is the kind of an unknown code, by HTTP status.
var plainStatus = map[int]kind{http.StatusNotFound: notFound, http.StatusForbidden: denied}

// read sets the kind by a code and its message.
func (r *refusal) read(code, text string) {
	m := meaningOf(code, text)
	r.kind = m.kind
	r.limitIsZero = r.conduct().reason == reasonQuota && strings.Contains(text, "Current Limit: 0,")
	r.retryAfter = max(r.retryAfter, m.wait)
}

// understand is classify for a code and message from another source, such as the status of a
// failed virtual machine.
func understand(code, text string) refusal {
	r := refusal{code: code, detail: shorten(text), err: fmt.Errorf("%s: %s", code, text)}
	r.read(code, text)
	r.advise(text)
	return r
}

func byStatus(status int) (kind, bool) {
	switch status {
	case http.StatusTooManyRequests:
		return throttled, true
	case http.StatusUnauthorized:
		return denied, true
	case http.StatusPreconditionFailed:
		return exists, true
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return transient, true
	}
	return "", false
}

// message returns the message of an ARM error body, wrapped or flat.
func message(resp *azcore.ResponseError) string {
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

// shorten cuts a text to what fits in an event.
func shorten(s string) string {
	const most = 400
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// wrap describes the failed call in one line: the SDK's own text of a refusal has many.
func wrap(err error, format string, args ...any) error {
	act := fmt.Sprintf(format, args...)
	if !errors.As(err, new(*azcore.ResponseError)) {
		if advice := unreached(err); advice != "" {
			return fmt.Errorf("%s: %s: %w", act, advice, err)
		}
		return fmt.Errorf("%s: %w", act, err)
	}
	return &callError{act: act, refusal: classify(err)}
}

// callError is a failed call that is not about capacity.
type callError struct {
	act     string
	refusal refusal
}

func (e *callError) Error() string { return e.act + ": " + e.refusal.words() }

func (e *callError) Unwrap() error { return e.refusal.err }
