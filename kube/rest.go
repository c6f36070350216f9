package kube

import (
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What did not go well is written where it happened, so that whoever leads next does not
// try it again at once. Nobody's manifests name these annotations, so applying those
// leaves them alone; taken off by hand, they are forgotten with the next restart.
const (
	// RestsAnnotation is on NodeClaims of which a move failed, and on NodePools in which
	// too many did: a Rest.
	RestsAnnotation = "karve.dev/rests"
	// UnsettledAnnotation is on NodePools in which consolidations did not come true: a Lull.
	UnsettledAnnotation = "karve.dev/unsettled"
)

// mostFailures is more than are ever told apart.
const mostFailures = 1000

// Rest is how often moves failed in a row, and until when none is tried.
type Rest struct {
	Failures int       `json:"failures"`
	Until    time.Time `json:"until"`
}

// Lull is until when underutilized nodes are left alone, and for how long that is: the
// next one is twice as long.
type Lull struct {
	Seconds int       `json:"seconds"`
	Until   time.Time `json:"until"`
}

// String is the annotation's value.
func (r Rest) String() string {
	r.Until = r.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(r) // its fields always can be
	return string(text)
}

// String is the annotation's value.
func (l Lull) String() string {
	l.Until = l.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(l) // its fields always can be
	return string(text)
}

// RestOf reads how long an object rests; the zero Rest when it says nothing. The error is
// about what cannot be read.
func RestOf(o client.Object) (r Rest, err error) {
	text, ok := o.GetAnnotations()[RestsAnnotation]
	if !ok {
		return Rest{}, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Failures < 1 || r.Failures > mostFailures {
		return Rest{}, fmt.Errorf("annotation %s of %s, which is ignored, is no rest: %q", RestsAnnotation, o.GetName(), text)
	}
	return r, nil
}

// LullOf reads until when a NodePool is unsettled; the zero Lull when it says nothing.
// The error is about what cannot be read.
func LullOf(o client.Object) (l Lull, err error) {
	text, ok := o.GetAnnotations()[UnsettledAnnotation]
	if !ok {
		return Lull{}, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil || l.Seconds < 1 {
		return Lull{}, fmt.Errorf("annotation %s of %s, which is ignored, is no lull: %q", UnsettledAnnotation, o.GetName(), text)
	}
	return l, nil
}
