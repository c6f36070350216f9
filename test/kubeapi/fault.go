// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FaultName names what goes wrong.
type FaultName string

// The faults of an API server and of the way to it.
const (
	// Unreachable: connections are refused, and watches end.
	Unreachable FaultName = "Unreachable"
	// LostAnswer: the request has its effect, and the connection is reset.
	LostAnswer FaultName = "LostAnswer"
	// Slow: etcd answers late, by Fault.Delay.
	Slow FaultName = "Slow"
	// TooManyRequests: priority and fairness rejects the request, with Retry-After.
	TooManyRequests FaultName = "TooManyRequests"
	// InternalError and Timeout are answers 500 and 504; a request that times out may have its effect.
	InternalError FaultName = "InternalError"
	Timeout       FaultName = "Timeout"
	// WebhookDenies: a webhook of somebody else refuses the write.
	WebhookDenies FaultName = "WebhookDenies"
	// WebhookUnavailable: a webhook that must be asked does not answer.
	WebhookUnavailable FaultName = "WebhookUnavailable"
	// Mutated: a webhook adds a label and an annotation to what is created.
	Mutated FaultName = "Mutated"
	// Contended: somebody else changes each object right before it is changed.
	Contended FaultName = "Contended"
	// WatchesEnd: watches end at random, and go on from where they ended.
	WatchesEnd FaultName = "WatchesEnd"
	// WatchesExpire: they end and cannot go on: clients have to list anew.
	WatchesExpire FaultName = "WatchesExpire"
	// WatchesLag: changes arrive late, by Fault.Delay, in order within a kind but not across kinds.
	WatchesLag FaultName = "WatchesLag"
	// WatchesStall: changes arrive when the fault is over; until then there are bookmarks only.
	WatchesStall FaultName = "WatchesStall"
	// StaleLists: lists that need not be current are of Fault.Delay ago.
	StaleLists FaultName = "StaleLists"
	// NotServed: the kind is unknown, as while its definition is missing.
	NotServed FaultName = "NotServed"
	// OlderDefinition: the definition of the kind is older, and does not know Fault.Fields: they are
	// dropped from what is written.
	OlderDefinition FaultName = "OlderDefinition"
	// ConversionFails: objects of the kind cannot be read or written.
	ConversionFails FaultName = "ConversionFails"
	// Forbidden: the permission was taken away.
	Forbidden FaultName = "Forbidden"
	// ListsTooLarge: lists end with a timeout.
	ListsTooLarge FaultName = "ListsTooLarge"
)

// FaultNames are all faults.
func FaultNames() []FaultName {
	return []FaultName{
		Unreachable, LostAnswer, Slow, TooManyRequests, InternalError, Timeout, WebhookDenies, WebhookUnavailable, Mutated, Contended,
		WatchesEnd, WatchesExpire, WatchesLag, WatchesStall, StaleLists, NotServed, OlderDefinition, ConversionFails, Forbidden, ListsTooLarge,
	}
}

// Fault goes wrong until it is removed.
type Fault struct {
	Name FaultName
	// Process, Verbs and Resources say which requests it concerns. Empty: all.
	Process          string
	Verbs, Resources []string
	// Rate is the share of these requests. Zero: all.
	Rate float64
	// Delay is how late things are.
	Delay time.Duration
	// Fields are paths of an object, like "spec.expireAfter".
	Fields []string
}

// faults are those at present. Their lock is taken within the server's, never around it.
type faults struct {
	mu     sync.Mutex
	random *rand.Rand
	now    map[int]Fault
	last   int
	met    map[FaultName]int
}

// Inject has a fault go on until the function that it returns is called.
func (s *Server) Inject(f Fault) (remove func()) {
	id := s.faults.add(f)
	s.ring()
	return func() {
		s.faults.remove(id)
		s.ring()
	}
}

func (s *faults) add(f Fault) (id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = map[int]Fault{}
	}
	s.last++
	s.now[s.last] = f
	return s.last
}

func (s *faults) remove(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now, id)
}

// ring has all watches look whether they may go on.
func (s *Server) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.store.collections {
		c.wake()
	}
}

// Met counts how often each fault went wrong.
func (s *Server) Met() map[FaultName]int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := map[FaultName]int{}
	for name, n := range s.faults.met {
		out[name] = n
	}
	return out
}

// concerns reports whether a fault concerns requests like this one.
func (f *Fault) concerns(q *request) bool {
	return (f.Process == "" || f.Process == q.process) &&
		(len(f.Verbs) == 0 || slices.Contains(f.Verbs, q.verb)) &&
		(len(f.Resources) == 0 || slices.Contains(f.Resources, q.kind.plural))
}

// strikes reports whether one of these faults goes wrong with the request, and which.
func (s *faults) strikes(q *request, names ...FaultName) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := 1; id <= s.last && len(s.now) > 0; id++ {
		f, on := s.now[id]
		if !on || !slices.Contains(names, f.Name) || !f.concerns(q) || f.Rate > 0 && s.random.Float64() >= f.Rate {
			continue
		}
		if s.met == nil {
			s.met = map[FaultName]int{}
		}
		s.met[f.Name]++
		return f, true
	}
	return Fault{}, false
}

func (s *faults) unreachable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.now {
		if f.Name == Unreachable && f.Process == "" {
			return errRefused
		}
	}
	return nil
}

var (
	errRefused = fmt.Errorf("dial tcp: connect: %w", syscall.ECONNREFUSED)
	errReset   = fmt.Errorf("read tcp: %w", syscall.ECONNRESET)
)

func (q *request) writes() bool { return q.verb != "get" && q.verb != "list" && q.verb != "watch" }

// refuse is the answer to a request that a fault keeps from its effect; nil when none does.
func (s *faults) refuse(q *request) error {
	if _, yes := s.strikes(q, NotServed); yes {
		return notServed(q.kind.gvr())
	}
	if _, yes := s.strikes(q, Forbidden); yes {
		return apierrors.NewForbidden(q.gr(), q.key.Name, fmt.Errorf("user %q cannot %s resource %q", q.process, q.verb, q.kind.plural))
	}
	if _, yes := s.strikes(q, TooManyRequests); yes {
		return apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again later", 1)
	}
	if _, yes := s.strikes(q, InternalError); yes {
		return apierrors.NewInternalError(fmt.Errorf("etcdserver: leader changed"))
	}
	if _, yes := s.strikes(q, ConversionFails); yes {
		return apierrors.NewInternalError(fmt.Errorf("conversion webhook for %s failed: service unavailable", q.kind.gvk))
	}
	if q.verb == "list" {
		if _, yes := s.strikes(q, ListsTooLarge); yes {
			return timeout()
		}
	}
	if !q.writes() {
		return nil
	}
	if _, yes := s.strikes(q, WebhookUnavailable); yes {
		return apierrors.NewInternalError(fmt.Errorf("failed calling webhook %q: context deadline exceeded", "policy.example.com"))
	}
	if _, yes := s.strikes(q, WebhookDenies); yes {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: `admission webhook "policy.example.com" denied the request: not today`,
		}}
	}
	return nil
}

// dropFields drops what an older definition of the kind does not know.
func (s *faults) dropFields(q *request, object map[string]any) {
	f, yes := s.strikes(q, OlderDefinition)
	if !yes {
		return
	}
	for _, path := range f.Fields {
		unstructured.RemoveNestedField(object, strings.Split(path, ".")...)
	}
}

func timeout() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout,
		Message: "Timeout: request did not complete within the allotted timeout",
	}}
}
