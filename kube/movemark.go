package kube

import (
	"encoding/json"
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// What is written on the claims that take part in a move, so that whoever leads next
// goes on with it or takes it back.
const (
	// MoveAnnotation is on the claims that go: a MoveMark.
	MoveAnnotation = "karve.dev/move"
	// ReplacesAnnotation is on the claims bought in their place: the move's ID. It stays
	// when the move is over, and says then why the node exists.
	ReplacesAnnotation = "karve.dev/replaces"
)

// mostReplacements is more than any move buys: a mark that says more was not written by
// karve, and nobody makes room for so many.
const mostReplacements = 10_000

// MoveMark is what a claim that is to go says about its move.
type MoveMark struct {
	ID string `json:"id"`
	// Replacements is how many claims are bought in place of all nodes of the move.
	Replacements int       `json:"replacements"`
	Cause        string    `json:"cause"`
	Since        time.Time `json:"since"`
	// Undone is set from the moment on at which the move is taken back.
	Undone bool `json:"undone,omitempty"`
}

// String is the annotation's value.
func (m MoveMark) String() string {
	m.Since = m.Since.UTC().Truncate(time.Second)
	text, _ := json.Marshal(m) // its fields always can be
	return string(text)
}

// MoveOf reads the mark of a claim. ok is false when it has none; the error is about
// one that cannot be read.
func MoveOf(c *karpv1.NodeClaim) (m MoveMark, ok bool, err error) {
	text, ok := c.Annotations[MoveAnnotation]
	if !ok {
		return MoveMark{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.ID == "" || m.Replacements < 0 || m.Replacements > mostReplacements {
		return MoveMark{}, true, fmt.Errorf("annotation %s of nodeclaim %s is no mark of a move: %q", MoveAnnotation, c.Name, text)
	}
	return m, true, nil
}
