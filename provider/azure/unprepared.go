package azure

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/karve-dev/karve/provider"
)

// ClassUnprepared is a reason of an AKSNodeClass's ValidationSucceeded condition: no machine of the
// class can be prepared, for want of a token or a security group, say.
const ClassUnprepared = "CannotBePrepared"

const (
	// unpreparedLaunches is how many launches of a class must fail in the same words, over
	// unpreparedFor at least, for the class to rest: one is mended by trying again.
	unpreparedLaunches = 3
	unpreparedFor      = 10 * time.Second
	unpreparedTTL      = 3 * time.Minute
	// unpreparedForgotten is after how long without another such launch it is none of the same.
	unpreparedForgotten = 10 * time.Minute
)

// A hitch is what launches of a class failed for before a machine was asked for.
type hitch struct {
	words       string
	first, last time.Time
	launches    int
}

// unprepared has the class rest for what its machines cannot be prepared for time and again.
func (l *launch) unprepared(err error) {
	if passes(err) || l.p.mayNotBuy(l.class.Name) != nil { // it has a reason to rest already
		return
	}
	r := ofPreparation(err)
	if l.p.stockouts.hindered(l.class.Name, r.words()) {
		l.p.stockouts.rest(l.class.Name, ClassUnprepared, r, unpreparedTTL)
	}
}

// unlisted minds that the machines cannot be listed for a reason that stays: the group does
// not exist, or may not be read.
func (l *launch) unlisted(err error) {
	r := classify(err)
	if r.kind != notFound && r.kind != denied || l.p.mayNotBuy(l.class.Name) != nil {
		return
	}
	if l.p.stockouts.hindered(l.class.Name, r.words()) && !l.blame(r) {
		l.p.stockouts.rest(l.class.Name, ClassUnprepared, ofPreparation(err), unpreparedTTL)
	}
}

// ofPreparation is what Azure had against the preparation, or what we had ourselves.
func ofPreparation(err error) refusal {
	var notReady *provider.NotReadyError
	if errors.As(err, &notReady) {
		return refusal{kind: otherRefusal, code: notReady.Reason, detail: shorten(notReady.Detail), err: err}
	}
	r := classify(err)
	if r.kind == transient { // it is none of Azure's, or it would pass
		r.code, r.detail = ClassUnprepared, shorten(strings.TrimPrefix(err.Error(), errBeforeRequest.Error()+": "))
	}
	return r
}

// passes reports whether an error of a preparation is over by itself: Azure or a server is busy
// or fails, an answer did not come or was cut short, or the right to use a gallery is asked for
// anew, which has a pace of its own.
func passes(err error) bool {
	var (
		offLine net.Error
		garbled *json.SyntaxError
		all     *sharedError
		waited  *passingError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &offLine), errors.As(err, &garbled), errors.As(err, &waited):
		return true
	}
	switch classify(err).kind {
	case throttled, inUse, staleReference, exists:
		return true
	case transient:
		return responseOf(err) != nil || errors.As(err, &all)
	}
	return false
}

// A passingError is one that is over by itself.
type passingError struct{ error }

func (e *passingError) Unwrap() error { return e.error }

// hindered notes what a launch of a class failed for, and reports whether that is so time and
// again, and no machine of the class was bought meanwhile.
func (m *stockouts) hindered(class, words string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	h := m.hitches[class]
	if h.words != words || now.Sub(h.last) >= unpreparedForgotten || m.sells(class) {
		h = hitch{words: words, first: now}
	}
	h.last, h.launches = now, h.launches+1
	m.hitches[class] = h
	return h.launches >= unpreparedLaunches && now.Sub(h.first) >= unpreparedFor
}
