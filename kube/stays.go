// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/engine/disrupt"
)

// Stays says for how much longer pods may be expected to stay on their nodes, and how long they must be
// (disrupt.Settings.ExpectedStay) for their evictions not to cost more. The zero Stays expects all to
// stay.
type Stays struct {
	Lifetimes Lifetimes
	Expected  time.Duration
}

// Lifetimes estimates how long pods stay.
type Lifetimes interface {
	// Remaining is for how much longer the pod may be expected to stay on its node.
	Remaining(p *corev1.Pod, now time.Time) time.Duration
}

// shortStays sums up the pods of a node that may leave soon of their own accord.
type shortStays struct {
	milli    int64 // thousandths of disrupt.ShortStayCost: sums of whole numbers do not depend on their order
	shortest time.Duration
	pod      *corev1.Pod // the one with the shortest; nil when none may leave soon
}

func (s *shortStays) add(p *corev1.Pod, cost float64, stays Stays, now time.Time) {
	if stays.Expected <= 0 {
		return
	}
	remaining := stays.Lifetimes.Remaining(p, now)
	more := int64(1000 * disrupt.ShortStayCost(cost, remaining, stays.Expected))
	if more <= 0 {
		return
	}
	s.milli += more
	if s.pod == nil || cmp.Or(cmp.Compare(remaining, s.shortest), cmp.Compare(p.Namespace, s.pod.Namespace), cmp.Compare(p.Name, s.pod.Name)) < 0 {
		s.shortest, s.pod = remaining, p
	}
}

// read copies the sums to the node.
func (s *shortStays) read(into *disrupt.Node) {
	if s.pod != nil {
		into.ShortStayCost, into.ShortestStay, into.ShortestStayPod = float64(s.milli)/1000, s.shortest, name(s.pod)
	}
}
