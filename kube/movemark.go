// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// mostReplacements is more than any move launches: a mark with more was not written by karve and
// is rejected.
const mostReplacements = 10_000

// MoveMark records, on a claim that is to be replaced, its move.
type MoveMark struct {
	ID string `json:"id"`
	// Replacements is how many claims are launched in place of all nodes of the move.
	Replacements int       `json:"replacements"`
	Cause        string    `json:"cause"`
	Since        time.Time `json:"since"`
	// TakenBack is set once the move is being taken back.
	TakenBack bool `json:"undone,omitempty"`
}

// String is the annotation's value.
func (m MoveMark) String() string {
	m.Since = m.Since.UTC().Truncate(time.Second)
	text, _ := json.Marshal(m) // cannot fail for these fields
	return string(text)
}

// MoveOf reads the mark of a claim. ok is false when it has none; the error is about a mark that
// cannot be read.
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
