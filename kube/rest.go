// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Failures are recorded on the object concerned, so that the next leader does not repeat the
// attempt at once. Users' manifests do not contain these annotations, so applying the manifests
// does not change them. If a user removes them, the next restart forgets the failures.
const (
	// BackOffAnnotation is on NodeClaims whose move failed, and on NodePools in which too many
	// moves failed: a BackOff.
	BackOffAnnotation = "karve.dev/back-off"
	// ConsolidationPauseAnnotation is on NodePools where the scheduler undid consolidations by
	// placing the pods on other nodes than planned: a ConsolidationPause.
	ConsolidationPauseAnnotation = "karve.dev/consolidation-pause"
)

// mostFailures is the largest count of failures that is accepted.
const mostFailures = 1000

// BackOff is how many consecutive moves failed, and until when no move is tried.
type BackOff struct {
	Failures int       `json:"failures"`
	Until    time.Time `json:"until"`
}

// ConsolidationPause is until when underutilized nodes are left alone, and how long that pause
// is: the next one is twice as long.
type ConsolidationPause struct {
	Seconds int       `json:"seconds"`
	Until   time.Time `json:"until"`
}

// String is the annotation's value.
func (r BackOff) String() string {
	r.Until = r.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(r) // cannot fail for these fields
	return string(text)
}

// String is the annotation's value.
func (l ConsolidationPause) String() string {
	l.Until = l.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(l) // cannot fail for these fields
	return string(text)
}

// BackOffOf reads the BackOff of an object; the zero BackOff when it has none. The error is
// about an annotation that cannot be read.
func BackOffOf(o client.Object) (r BackOff, err error) {
	text, ok := o.GetAnnotations()[BackOffAnnotation]
	if !ok {
		return BackOff{}, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Failures < 1 || r.Failures > mostFailures {
		return BackOff{}, fmt.Errorf("annotation %s of %s, which is ignored, is not a back-off: %q", BackOffAnnotation, o.GetName(), text)
	}
	return r, nil
}

// ConsolidationPauseOf reads the ConsolidationPause of a NodePool; the zero ConsolidationPause
// when it has none. The error is about an annotation that cannot be read.
func ConsolidationPauseOf(o client.Object) (l ConsolidationPause, err error) {
	text, ok := o.GetAnnotations()[ConsolidationPauseAnnotation]
	if !ok {
		return ConsolidationPause{}, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil || l.Seconds < 1 {
		return ConsolidationPause{}, fmt.Errorf("annotation %s of %s, which is ignored, is not a consolidation pause: %q", ConsolidationPauseAnnotation, o.GetName(), text)
	}
	return l, nil
}
