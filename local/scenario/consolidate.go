// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// eveningReplicas is how many web pods are left in the evening, and unchangedFor how long
// nodes must not change before karve counts as done.
const (
	eveningReplicas = 24
	unchangedFor    = 12 * time.Second
)

// consolidate deletes most of web and waits until karve has moved the remaining pods
// onto fewer and cheaper nodes.
func (s *runner) consolidate(ctx context.Context) error {
	s.voice.Title("Evening: web is scaled down, and its nodes are half empty")
	before, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	told, err := readMoves(s.env.KarveLog())
	if err != nil {
		return err
	}
	s.began = time.Now()
	if err := s.scale(ctx, "web", eveningReplicas); err != nil {
		return err
	}
	s.times.Before = s.prices.total(before.Claims)
	s.voice.Say("web is scaled from 60 to %d: %d nodes cost $%.4f an hour, as before", eveningReplicas, len(before.Claims), s.times.Before)
	last, err := s.settleDown(ctx, before)
	if err != nil {
		return err
	}
	s.times.Consolidation = last.Sub(s.began)
	return s.tellConsolidation(ctx, before, len(told))
}

// settleDown waits until nodes change no more and cost less, and returns when the
// last of them changed.
func (s *runner) settleDown(ctx context.Context, before state) (last time.Time, err error) {
	seen := ""
	err = s.waitFor(ctx, "fewer or cheaper nodes run the pods", func(now state) (bool, error) {
		s.voice.Now("%s, $%.4f an hour", now.summary(), s.prices.total(now.Claims))
		if looks := now.nodeChanges(); looks != seen {
			seen, last = looks, time.Now()
		}
		settled := now.running("web") == eveningReplicas && now.pods("web") == eveningReplicas && len(now.Nodes) == len(now.Claims)
		return settled && s.prices.total(now.Claims) < s.prices.total(before.Claims) && time.Since(last) > unchangedFor, nil
	})
	return last, err
}

// nodeChanges is the same text as long as no node is launched, deleted or about to be deleted.
func (s state) nodeChanges() string {
	var text []string
	for _, c := range s.Claims {
		text = append(text, fmt.Sprint(c.UID, c.Node, c.Deleting))
	}
	for i := range s.Nodes {
		for _, taint := range s.Nodes[i].Spec.Taints {
			text = append(text, s.Nodes[i].Name+taint.Key)
		}
	}
	slices.Sort(text)
	return strings.Join(text, " ")
}

func (s *runner) tellConsolidation(ctx context.Context, before state, told int) error {
	now, err := look(ctx, s.env)
	if err != nil {
		return err
	}
	moves, err := readMoves(s.env.KarveLog())
	if err != nil {
		return err
	}
	s.times.After = s.prices.total(now.Claims)
	s.voice.Say("%s, $%.4f an hour instead of $%.4f: %.0f %% less, $%.0f a month",
		nodesInstead(len(now.Claims), len(before.Claims)), s.times.After, s.times.Before,
		100*(1-s.times.After/s.times.Before), (s.times.Before-s.times.After)*hoursPerMonth)
	s.voice.Block(moveTable(moves[told:]))
	return nil
}

// nodesInstead says how many nodes there are now.
func nodesInstead(now, before int) string {
	if now == before {
		return fmt.Sprintf("%d nodes as before, but cheaper ones", now)
	}
	return fmt.Sprintf("%d nodes instead of %d", now, before)
}

// hoursPerMonth is the number that Azure uses.
const hoursPerMonth = 730
