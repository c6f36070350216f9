// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// Any annotation on a claim is read as a sensible mark or gives an error.
func TestMarksOfMoves(t *testing.T) {
	since := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for text, good := range map[string]bool{
		kube.MoveMark{ID: "a", Replacements: 2, Cause: "Drifted", Since: since}.String(): true,
		`{"id":"a","replacements":0}`:                   true,
		`{"id":"a","replacements":-1}`:                  false,
		`{"id":"a","replacements":9223372036854775807}`: false,
		`{"id":"a","replacements":1e99}`:                false,
		`{"replacements":1}`:                            false,
		`null`:                                          false,
		``:                                              false,
	} {
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{kube.MoveAnnotation: text}}}
		_, marked, err := kube.MoveOf(claim)
		if !marked || (err == nil) != good {
			t.Errorf("%q: marked %v, error %v; a mark that can be read: %v", text, marked, err, good)
		}
	}
}
