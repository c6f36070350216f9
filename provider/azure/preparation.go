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

// recordPreparationError pauses the node class when its launches fail repeatedly before the
// request.
func (x *failures) recordPreparationError(class string, err error) {
	if isTemporary(err) || x.checkClassPause(class) != nil { // it pauses already
		return
	}
	r := preparationFailure(err)
	if x.unavailable.RecordPreparationError(class, r.Describe()) {
		x.unavailable.PauseClass(class, ClassUnprepared, r, unpreparedTTL)
	}
}

// recordListError pauses the node class after a permanent error of listing the virtual machines:
// the group does not exist, or may not be read.
func (x *failures) recordListError(class string, err error) {
	r := armerr.Classify(err)
	if r.Kind != armerr.NotFound && r.Kind != armerr.Denied || x.checkClassPause(class) != nil {
		return
	}
	if x.unavailable.RecordPreparationError(class, r.Describe()) && !x.pauseClass(class, r) {
		x.unavailable.PauseClass(class, ClassUnprepared, preparationFailure(err), unpreparedTTL)
	}
}

// preparationFailure returns the failure for an error before the request, from Azure or from
// karve.
func preparationFailure(err error) armerr.Failure {
	var notReady *provider.NotReadyError
	if errors.As(err, &notReady) {
		return armerr.Failure{Kind: armerr.OtherFailure, Code: notReady.Reason, Detail: armerr.Shorten(notReady.Detail), Err: err}
	}
	r := armerr.Classify(err)
	if r.Kind == armerr.Transient { // the error is not Azure's, or it would pass by itself
		r.Code, r.Detail = ClassUnprepared, armerr.Shorten(strings.TrimPrefix(err.Error(), errBeforeRequest.Error()+": "))
	}
	return r
}

// isTemporary reports whether an error before the request passes by itself: Azure or a server is
// busy or fails, an answer did not come or was cut short, or the token for a gallery is requested
// again, which has its own retry interval.
func isTemporary(err error) bool {
	var (
		network   net.Error
		syntax    *json.SyntaxError
		shared    *armerr.SharedError
		temporary *temporaryError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &network), errors.As(err, &syntax), errors.As(err, &temporary):
		return true
	}
	switch armerr.Classify(err).Kind {
	case armerr.Throttled, armerr.InUse, armerr.StaleReference, armerr.Conflict:
		return true
	case armerr.Transient:
		return armerr.ResponseOf(err) != nil || errors.As(err, &shared)
	}
	return false
}

// A temporaryError is an error that passes by itself.
type temporaryError struct{ error }

func (e *temporaryError) Unwrap() error { return e.error }
