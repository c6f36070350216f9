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
	// RestsAnnotation is on NodeClaims whose move failed, and on NodePools in which too many
	// moves failed: a Rest.
	RestsAnnotation = "karve.dev/rests"
	// UnsettledAnnotation is on NodePools where the scheduler undid consolidations by placing the
	// pods on other nodes than planned: a Lull.
	UnsettledAnnotation = "karve.dev/unsettled"
)

// mostFailures is the largest count of failures that is accepted.
const mostFailures = 1000

// Rest is how often moves failed in a row, and until when no move is tried.
type Rest struct {
	Failures int       `json:"failures"`
	Until    time.Time `json:"until"`
}

// Lull is until when underutilized nodes are left alone, and how long that pause is: the next one
// is twice as long.
type Lull struct {
	Seconds int       `json:"seconds"`
	Until   time.Time `json:"until"`
}

// String is the annotation's value.
func (r Rest) String() string {
	r.Until = r.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(r) // cannot fail for these fields
	return string(text)
}

// String is the annotation's value.
func (l Lull) String() string {
	l.Until = l.Until.UTC().Truncate(time.Second)
	text, _ := json.Marshal(l) // cannot fail for these fields
	return string(text)
}

// RestOf reads the Rest of an object; the zero Rest when it has none. The error is about an
// annotation that cannot be read.
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

// LullOf reads the Lull of a NodePool; the zero Lull when it has none. The error is about an
// annotation that cannot be read.
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
