// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// exclusiveClaims finds the pods that share claims which one pod at a time may use (see
// Pod.ExclusiveClaims).
type exclusiveClaims struct {
	of        map[*pod][]string        // the claims of each pod with any
	mounting  map[string]map[*pod]bool // the pods that mount each claim
	contended map[string]bool          // claims that several pods mount
}

func newExclusiveClaims() exclusiveClaims {
	return exclusiveClaims{of: map[*pod][]string{}, mounting: map[string]map[*pod]bool{}, contended: map[string]bool{}}
}

// add adds a pod that mounts the claims.
func (e *exclusiveClaims) add(p *pod, claims []string) {
	if len(claims) == 0 {
		return
	}
	e.of[p] = claims
	for _, claim := range claims {
		if e.mounting[claim] == nil {
			e.mounting[claim] = map[*pod]bool{}
		}
		e.mounting[claim][p] = true
		if len(e.mounting[claim]) > 1 {
			e.contended[claim] = true
		}
	}
}

// remove undoes add.
func (e *exclusiveClaims) remove(p *pod) {
	for _, claim := range e.of[p] {
		delete(e.mounting[claim], p)
		if len(e.mounting[claim]) == 0 {
			delete(e.mounting, claim)
		}
		if len(e.mounting[claim]) < 2 {
			delete(e.contended, claim)
		}
	}
	delete(e.of, p)
}

// ClaimContender is a pending pod that mounts claims which one pod at a time may use, and which
// other pods mount as well.
type ClaimContender struct {
	Pod    PodRef
	Class  *PodClass
	Claims []string // those that others mount, sorted by name
}

// ClaimContenders lists the pending pods that share claims which one pod at a time may use, in the
// order in which kube-scheduler tries them: those of higher priority first, then older ones. users
// has, for each of the claims that a pod on a node uses, that pod; it may be nominated to the node,
// or need another one.
//
// A WhatIf places only pods that use their claims already: for it there are none.
func (s *Snapshot) ClaimContenders() (contenders []ClaimContender, users map[string]PodRef) {
	e := &s.podStore.claims
	if s.InWhatIf() || len(e.contended) == 0 {
		return nil, nil
	}
	users = map[string]PodRef{}
	pending := map[*pod][]string{}
	for _, claim := range slices.Sorted(maps.Keys(e.contended)) {
		for p := range e.mounting[claim] {
			if p.bound == nil {
				pending[p] = append(pending[p], claim)
				continue
			}
			if p.bound.node == nil {
				continue // its node is gone, and kube-scheduler does not see it
			}
			if had, ok := users[claim]; !ok || compareRefs(p.PodRef, had) < 0 {
				users[claim] = p.PodRef
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(pending), func(x, y *pod) int {
		return cmp.Or(cmp.Compare(y.class.Priority, x.class.Priority), compareAge(x, y))
	}) {
		contenders = append(contenders, ClaimContender{Pod: p.PodRef, Class: p.class, Claims: pending[p]})
	}
	return contenders, users
}

func compareRefs(a, b PodRef) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.UID, b.UID))
}
