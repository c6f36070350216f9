// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A queue counts the requests ahead as a scan of all requests would.
func TestQueueCountsAsOneByOne(t *testing.T) {
	kinds := [][]Class{{ARMWrites, PutVM}, {ARMDeletes, DeleteVM}, {ARMReads, GetVM}, {ARMReads}}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 7))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var q queue
		var all []*place
		for serial := range uint64(80) {
			pl := &place{ticket: ticket{key: fmt.Sprint(r.IntN(40))}, classes: kinds[r.IntN(len(kinds))], priority: Priority(r.IntN(4)), serial: serial}
			q.enter(pl)
			all = append(all, pl)
			switch other := all[r.IntN(len(all))]; r.IntN(4) {
			case 0: // leaves, or enters again with another priority
				q.leave(other)
				if other.priority++; r.IntN(2) == 0 {
					q.enter(other)
				} else {
					all = slices.DeleteFunc(all, func(p *place) bool { return p == other })
				}
			case 1:
				other.block(now.Add(time.Duration(r.IntN(5)) * time.Second))
			}
			now = now.Add(time.Second)
		}
		q.forget(func(p *place) bool { return p.serial%5 == 0 })
		all = slices.DeleteFunc(all, func(p *place) bool { return p.serial%5 == 0 })
		for _, closed := range [][]Class{nil, {DeleteVM}} {
			for _, pl := range all {
				if got, want := q.ahead(pl, closed, now), aheadOneByOne(all, pl, closed, now); !slices.Equal(got, want) {
					t.Fatalf("%v go before place %d of priority %d, want %v (seed %d)", got, pl.serial, pl.priority, want, seed)
				}
			}
		}
	}
}

func aheadOneByOne(all []*place, pl *place, closed []Class, now time.Time) []float64 {
	n := make([]float64, len(pl.classes))
	for _, p := range all {
		first := p.priority > pl.priority || p.priority == pl.priority && p.serial < pl.serial
		if !first || p.blocked.After(now) && p.key != pl.key || slices.ContainsFunc(p.classes, func(c Class) bool { return slices.Contains(closed, c) }) {
			continue
		}
		for i, c := range pl.classes {
			if slices.Contains(p.classes, c) {
				n[i]++
			}
		}
	}
	return n
}
