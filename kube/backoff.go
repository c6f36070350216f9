// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
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
func (b BackOff) String() string {
	b.Until = b.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(b) // cannot fail for these fields
	return string(text)
}

// String is the annotation's value.
func (p ConsolidationPause) String() string {
	p.Until = p.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(p) // cannot fail for these fields
	return string(text)
}

// BackOffOf reads the BackOff of an object; the zero BackOff when it has none. The error is
// about an annotation that cannot be read.
func BackOffOf(o client.Object) (b BackOff, err error) {
	text, ok := o.GetAnnotations()[BackOffAnnotation]
	if !ok {
		return BackOff{}, nil
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil || b.Failures < 1 || b.Failures > mostFailures {
		return BackOff{}, fmt.Errorf("annotation %s of %s, which is ignored, is not a back-off: %q", BackOffAnnotation, o.GetName(), text)
	}
	return b, nil
}

// ConsolidationPauseOf reads the ConsolidationPause of a NodePool; the zero ConsolidationPause
// when it has none. The error is about an annotation that cannot be read.
func ConsolidationPauseOf(o client.Object) (p ConsolidationPause, err error) {
	text, ok := o.GetAnnotations()[ConsolidationPauseAnnotation]
	if !ok {
		return ConsolidationPause{}, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Seconds < 1 {
		return ConsolidationPause{}, fmt.Errorf("annotation %s of %s, which is ignored, is not a consolidation pause: %q", ConsolidationPauseAnnotation, o.GetName(), text)
	}
	return p, nil
}
