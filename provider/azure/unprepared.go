// SPDX-License-Identifier: Apache-2.0

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
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// ClassUnprepared is a reason of an AKSNodeClass's ValidationSucceeded condition: launches of
// the class fail before the request, for lack of a token or a security group, for example.
const ClassUnprepared = "CannotBePrepared"

// unpreparedTTL is how long a node class pauses whose launches cannot be prepared.
const unpreparedTTL = 3 * time.Minute

// unprepared pauses the node class when its launches fail repeatedly before the request.
func (l *launch) unprepared(err error) {
	if passes(err) || l.p.mayNotBuy(l.class.Name) != nil { // it pauses already
		return
	}
	r := ofPreparation(err)
	if l.p.stockouts.PreparationFails(l.class.Name, r.Words()) {
		l.p.stockouts.PauseClass(l.class.Name, ClassUnprepared, r, unpreparedTTL)
	}
}

// unlisted handles a permanent error of listing the virtual machines: the group does not exist,
// or may not be read.
func (l *launch) unlisted(err error) {
	r := armerr.Classify(err)
	if r.Kind != armerr.NotFound && r.Kind != armerr.Denied || l.p.mayNotBuy(l.class.Name) != nil {
		return
	}
	if l.p.stockouts.PreparationFails(l.class.Name, r.Words()) && !l.blame(r) {
		l.p.stockouts.PauseClass(l.class.Name, ClassUnprepared, ofPreparation(err), unpreparedTTL)
	}
}

// ofPreparation returns the refusal for an error before the request, from Azure or from karve.
func ofPreparation(err error) armerr.Refusal {
	var notReady *provider.NotReadyError
	if errors.As(err, &notReady) {
		return armerr.Refusal{Kind: armerr.OtherRefusal, Code: notReady.Reason, Detail: armerr.Shorten(notReady.Detail), Err: err}
	}
	r := armerr.Classify(err)
	if r.Kind == armerr.Transient { // the error is not Azure's, or it would pass by itself
		r.Code, r.Detail = ClassUnprepared, armerr.Shorten(strings.TrimPrefix(err.Error(), errBeforeRequest.Error()+": "))
	}
	return r
}

// passes reports whether an error before the request passes by itself: Azure or a server is busy
// or fails, an answer did not come or was cut short, or the token for a gallery is requested
// again, which has its own retry interval.
func passes(err error) bool {
	var (
		offLine net.Error
		garbled *json.SyntaxError
		all     *armerr.SharedError
		waited  *passingError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &offLine), errors.As(err, &garbled), errors.As(err, &waited):
		return true
	}
	switch armerr.Classify(err).Kind {
	case armerr.Throttled, armerr.InUse, armerr.StaleReference, armerr.Exists:
		return true
	case armerr.Transient:
		return armerr.ResponseOf(err) != nil || errors.As(err, &all)
	}
	return false
}

// A passingError is an error that passes by itself.
type passingError struct{ error }

func (e *passingError) Unwrap() error { return e.error }
