package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
)

// phase is how far a move has come.
type phase string

const (
	// chosen moves wait until they have been right for a while. Nothing is written yet.
	chosen phase = "chosen"
	// marking writes on claims and nodes that they are to go.
	marking phase = "marking"
	// marked moves have nodes that take no more pods, and are looked at once more.
	marked phase = "marked"
	// buying creates what takes the nodes' place.
	buying phase = "buying"
	// waiting is until all of that is ready for pods.
	waiting phase = "waiting"
	// deleting asks the nodes to go. There is no way back.
	deleting phase = "deleting"
	// undoing takes everything back.
	undoing phase = "undoing"
	// over is for as long as the mirror still shows marks that were taken off.
	over phase = "over"
)

const (
	// shortestWait and longestWait bound how long replacements may take from their creation
	// to get ready; between them it is perClaim for each of the moves' claims. After the
	// longest their room counts no more, and would be bought twice.
	shortestWait, longestWait = 10 * time.Minute, kube.StuckAfter
	perClaim                  = 80 * time.Millisecond
	// insists is for how long a write that is refused is tried before the node is given up.
	insists = time.Minute
	// movers bounds how many moves are worked on at once, writers the nodes of each.
	movers, writers = 20, 20
	// mostSurprises is how often a move is decided anew because pods came.
	mostSurprises = 3
)

// move is one decision on its way.
type move struct {
	disrupt.Move
	id    string
	phase phase
	since time.Time // it is in the phase
	round int       // in which the phase began
	begun time.Time // it was chosen, or marked by an earlier process
	// sought is when the search began that found it, zero when that was an earlier process's.
	sought time.Time
	// purchases are the claims in place of the nodes, in the order of Launches.
	purchases []purchase
	// pods are the UIDs of those the move knows.
	pods map[string]bool
	// gone are the nodes that were deleted or taken off the move; all is every node
	// that was ever part of it.
	gone map[string]bool
	all  []string
	// tired are nodes to leave alone for a while; starved is set when what was to take
	// their place could not be had.
	tired   map[string]rest
	starved bool
	// renounced is set once the marks say that the move is taken back.
	renounced bool
	// supplied is set once all of it is ready.
	supplied bool
	// surprised is set when pods came to its nodes that it must provide for first;
	// surprises counts how often.
	surprised bool
	surprises int
	// displaces is what its pods have yet to prove, once the nodes were asked to go.
	displaces *unproved
	// departed is set once decisions count the nodes as leaving.
	departed bool
}

func (m *move) enter(p phase, now time.Time, round int) { m.phase, m.since, m.round = p, now, round }

// buys reports whether the move needs replacements: then it is all or nothing.
func (m *move) buys() bool { return m.replacements() > 0 }

func (m *move) replacements() int { return max(len(m.Launches), len(m.purchases)) }

// decision is what Karpenter calls it.
func (m *move) decision() string {
	if m.buys() {
		return "replace"
	}
	return "delete"
}

// kind is the consolidation_type of Karpenter's metrics.
func (m *move) kind() string {
	switch {
	case m.Cause == disrupt.Empty:
		return "empty"
	case m.Cause != disrupt.Underutilized:
		return ""
	case len(m.all) > 1:
		return "multi"
	}
	return "single"
}

// reason is the cause as metrics and claims spell it.
func (m *move) reason() string { return strings.ToLower(string(m.Cause)) }

// patient reports whether the move can wait: nobody asked for it.
func (m *move) patient() bool { return m.Cause == disrupt.Empty || m.Cause == disrupt.Underutilized }

func newMove(d disrupt.Move, id string, now time.Time, round int) *move {
	m := &move{Move: d, id: id, begun: now, gone: map[string]bool{}, all: slices.Clone(d.Nodes)}
	m.know()
	m.enter(chosen, now, round)
	return m
}

// know notes whom the move takes along.
func (m *move) know() {
	m.pods = map[string]bool{}
	for _, h := range m.Receivers {
		for _, p := range h.Pods {
			m.pods[p.UID] = true
		}
	}
	for _, l := range m.Launches {
		for _, p := range l.Pods {
			m.pods[p.UID] = true
		}
	}
}

// drop takes nodes off the move; who goes through m.Nodes at the moment sees them all.
func (m *move) drop(keys ...string) {
	if len(keys) == 0 {
		return
	}
	for _, key := range keys {
		m.gone[key] = true
	}
	m.Nodes = slices.DeleteFunc(slices.Clone(m.Nodes), func(key string) bool { return m.gone[key] })
}

// advance takes every move as far as it will go now.
func (c *Controller) advance(ctx context.Context, s *sight) error {
	var (
		group panics.Group
		mu    sync.Mutex
		errs  []error
	)
	group.SetLimit(movers)
	for _, m := range c.inOrder() {
		group.Go(func() error {
			if err := c.proceed(ctx, m, s); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil; errs has it all
	c.settle(s)
	return errors.Join(errs...)
}

// inOrder lists the moves, oldest first.
func (c *Controller) inOrder() []*move {
	all := make([]*move, 0, len(c.moves))
	for _, m := range c.moves {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *move) int {
		if d := a.begun.Compare(b.begun); d != 0 {
			return d
		}
		return strings.Compare(a.id, b.id)
	})
	return all
}

// proceed goes from phase to phase until one has to wait.
func (c *Controller) proceed(ctx context.Context, m *move, s *sight) error {
	for {
		next, err := c.step(ctx, m, s)
		if err != nil {
			return fmt.Errorf("move %s of %d nodes (%s), %s: %w", m.id, len(m.all), m.Cause, m.phase, err)
		}
		if next == m.phase {
			return nil
		}
		m.enter(next, s.now, s.round)
	}
}

func (c *Controller) step(ctx context.Context, m *move, s *sight) (phase, error) {
	if m.phase != chosen && m.phase != undoing && m.phase != over {
		m.drop(s.left(m)...)
		if len(m.Nodes) == 0 {
			return over, nil
		}
	}
	switch m.phase {
	case marking:
		return c.markAll(ctx, m)
	case marked:
		return c.secondLook(ctx, m, s)
	case buying:
		return c.buy(ctx, m)
	case waiting:
		return c.await(ctx, m, s)
	case deleting:
		return c.remove(ctx, m, s)
	case undoing:
		return c.undo(ctx, m, s)
	case over:
		return over, c.tidy(ctx, m, s)
	}
	return m.phase, nil
}

// settle ends moves of which nothing is to be seen any more, and has what failed rest.
func (c *Controller) settle(s *sight) {
	for id, m := range c.moves {
		c.rests.set(m.tired)
		if m.starved {
			c.rests.pools(m.suppliers(), s)
		}
		if m.supplied {
			c.rests.relieve(m.suppliers())
		}
		m.tired, m.starved, m.supplied = nil, false, false
		if m.phase == over {
			c.relapses.watch(m.displaces)
			m.displaces = nil
		}
		if m.phase == over && s.clean(m) {
			delete(c.moves, id)
			c.search.wake = s.now // budgets have room again
		}
	}
}

// suppliers are the pools that the move buys in.
func (m *move) suppliers() map[string]bool {
	pools := map[string]bool{}
	for _, p := range m.purchases {
		pools[p.claim.Labels[karpv1.NodePoolLabelKey]] = true
	}
	return pools
}

// patience is how long replacements may take.
func (c *Controller) patience() time.Duration {
	claims := 0
	for _, m := range c.moves {
		claims += len(m.all)
	}
	return min(max(time.Duration(claims)*perClaim, shortestWait), longestWait)
}

// await lets the nodes go once all that takes their place is ready.
func (c *Controller) await(ctx context.Context, m *move, s *sight) (phase, error) {
	for _, p := range m.purchases {
		machine, known := c.Mirror.Machine(p.claim.Name)
		if !known || machine.Claim.DeletionTimestamp != nil {
			gone, err := c.vanished(ctx, p.claim)
			if err != nil || !gone {
				return waiting, err
			}
			m.starved = true
			return c.fail(m, fmt.Sprintf("replacement %s is gone", p.claim.Name)), nil
		}
		if !ready(machine) {
			if limit := c.patience(); s.now.Sub(machine.Claim.CreationTimestamp.Time) > limit {
				m.starved = true
				return c.fail(m, fmt.Sprintf("replacement %s is not ready after %s", p.claim.Name, limit)), nil
			}
			c.tellWaiting(m, machine.Claim)
			return waiting, nil
		}
	}
	found, err := c.objections(ctx, m)
	if err != nil {
		return waiting, err
	}
	if len(found) > 0 {
		return c.yield(m, found[0]), nil
	}
	m.supplied = true
	return deleting, nil
}

// ready reports whether a replacement takes pods: initialized for good, and its kubelet has
// not stopped answering while others were waited for.
func ready(m kube.Machine) bool {
	return kube.ConditionTrue(m.Claim, karpv1.ConditionTypeInitialized) && m.Node != nil && kube.Ready(m.Node)
}
