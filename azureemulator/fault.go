// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Fault makes requests fail on purpose.
type Fault struct {
	// Method and Path are regular expressions, unanchored, letter case
	// ignored; empty matches all. Path is compared with the URL's path. A refusal whose Path
	// names /virtualMachines strikes those, too, that AKS asks for.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Times is how many requests fail before the fault is over. Zero means 1,
	// negative for ever.
	Times int `json:"times,omitempty"`
	// Skip is how many matching requests pass first.
	Skip int `json:"skip,omitempty"`
	// Status, Code and Message are the answer. Status 0 means 500, an empty
	// Code follows from the status.
	Status  int    `json:"status,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// RetryAfterSeconds sets Retry-After when above 0.
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitempty"`
	// Flat leaves out the "error" envelope.
	Flat bool `json:"flat,omitempty"`
	// Lose carries the request out and then fails the answer, as when a
	// connection breaks between the two.
	Lose bool `json:"lose,omitempty"`
}

// fault is a Fault at work. The clock's lock guards it.
type fault struct {
	Fault
	method, path *regexp.Regexp
	// change, breaks and delay say how an answer differs from what it would be; with none
	// of them it is a refusal. before: the request is not carried out; twice: it is, again.
	change                func(*answerWriter)
	breaks, before, twice bool
	delay                 time.Duration
	// dribbles: the headers come at once, the body in pieces over so long. reorders: the
	// answer comes after the next one that is struck; waiting is the one that does.
	dribbles time.Duration
	reorders bool
	waiting  *chan struct{}
	// ofMetadata faults are of the metadata service's requests, all others of Azure's.
	ofMetadata bool
	// line is how the connection fails, if it does. alternates: every other request is carried
	// out before.
	line       lineFault
	alternates bool
	// named is what it is in the catalogue, if it is there. strikes counts the requests that it
	// struck.
	named   *NamedFault
	strikes int
	luck    luck
	// hangs: the delay ends when the client gives up.
	hangs bool
}

// faults are those at work on requests, in the order in which they match.
type faults struct {
	active []*fault
	line   *line
	struck *strikes
	clock  *clock
}

// add has the next matching requests fail. Faults added first match first.
func (fs *faults) add(f Fault, more ...func(*fault)) error {
	compiled := &fault{Fault: f}
	if compiled.Times == 0 {
		compiled.Times = 1
	}
	var err error
	if compiled.method, err = regexp.Compile("(?i)" + f.Method); err != nil {
		return fmt.Errorf("reading the fault's method: %w", err)
	}
	if compiled.path, err = regexp.Compile("(?i)" + f.Path); err != nil {
		return fmt.Errorf("reading the fault's path: %w", err)
	}
	if f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("fault with status %d: it must be between 400 and 599", f.Status)
	}
	for _, detail := range more {
		detail(compiled)
	}
	fs.clock.Lock()
	defer fs.clock.Unlock()
	fs.active = append(fs.active, compiled)
	return nil
}

// clear ends every fault, those of connections too.
func (fs *faults) clear() {
	fs.line.mend()
	fs.clock.Lock()
	defer fs.clock.Unlock()
	fs.active = nil
}

// list are those still at work, with Times and Skip as they stand.
func (fs *faults) list() []Fault {
	fs.clock.Lock()
	defer fs.clock.Unlock()
	list := make([]Fault, 0, len(fs.active))
	for _, f := range fs.active {
		list = append(list, f.Fault)
	}
	return list
}

// take spends one of a fault's times on req, or returns nil.
func (fs *faults) take(req *request, route *route) *fault {
	fs.clock.Lock()
	defer fs.clock.Unlock()
	return fs.takeFault(req.http.Method, req.http.URL.Path, func(f *fault) bool { return f.ofMetadata == route.isMetadata })
}

// takeRefusalOfVM spends one of a fault's times on a virtual machine that AKS asks for, or returns
// nil. Only plain refusals of virtual machines strike it: AKS has a connection and an identity
// of its own. Callers hold the lock.
func (fs *faults) takeRefusalOfVM(id string) error {
	f := fs.takeFault(http.MethodPut, id, func(f *fault) bool {
		return f.Status > 0 && !f.ofMetadata && strings.Contains(strings.ToLower(f.Path), "/virtualmachines")
	})
	if f == nil {
		return nil
	}
	return f.refusal()
}

// takeFault spends one of the times of the first fault of a request that may strike it.
// Callers hold the lock.
func (fs *faults) takeFault(method, path string, may func(*fault) bool) *fault {
	for i, f := range fs.active {
		if !f.method.MatchString(method) || !f.path.MatchString(path) || !may(f) {
			continue
		}
		if f.luck.passes() {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Times--
		if f.Times == 0 {
			fs.active = slices.Delete(fs.active, i, i+1)
		}
		if f.named != nil {
			fs.struck.note(f.named.Name)
		}
		return f.forNextRequest()
	}
	return nil
}

// forNextRequest returns the fault as it strikes one request, and counts the request.
func (f *fault) forNextRequest() *fault {
	now := *f
	now.before = f.before || f.alternates && f.strikes%2 == 1
	f.strikes++
	return &now
}

func (f *fault) refusal() *Error {
	e := &Error{Status: f.Status, Code: f.Code, Message: f.Message, Flat: f.Flat, header: http.Header{}}
	if e.Status == 0 {
		e.Status = http.StatusInternalServerError
	}
	if e.Code == "" {
		e.Code = codeOf(e.Status)
	}
	if e.Message == "" {
		e.Message = "The request failed because the emulator was told to fail it."
	}
	if f.RetryAfterSeconds > 0 {
		setRetryAfter(e.header, time.Duration(f.RetryAfterSeconds*float64(time.Second)))
	}
	return e
}

// codeOf is the code Azure most often sends with a status.
func codeOf(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return "TooManyRequests"
	case http.StatusConflict:
		return "Conflict"
	case http.StatusForbidden:
		return "AuthorizationFailed"
	case http.StatusNotFound:
		return "ResourceNotFound"
	case http.StatusServiceUnavailable:
		return "ServiceUnavailable"
	case http.StatusGatewayTimeout:
		return "GatewayTimeout"
	case http.StatusInternalServerError:
		return "InternalServerError"
	default:
		return "BadRequest"
	}
}
