// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube/state"
)

const (
	// maxMovesAtOnce bounds how many moves proceed concurrently, maxNodesAtOnce how many nodes of
	// each.
	maxMovesAtOnce, maxNodesAtOnce = 20, 20
)

// executor takes moves through their phases and makes the writes of each.
type executor struct {
	mirror    *state.Mirror
	marks     *marker
	inspector *inspector
	launcher  *launcher
	deleter   *deleter
	outcomes  *outcomes
	backOffs  *backOffs
	report    *reporter
}

// advance takes every move as far as possible now.
func (c *Controller) advance(ctx context.Context, v *view) error {
	var (
		group panics.Group
		mu    sync.Mutex
		errs  []error
	)
	v.readyWithin = c.moves.readyWithin()
	group.SetLimit(maxMovesAtOnce)
	for _, m := range c.moves.inOrder() {
		group.Go(func() error {
			if err := c.executor.proceed(ctx, m, v); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil; errs has it all
	c.record(v)
	return errors.Join(errs...)
}

// record records the results of the moves for nodes and NodePools, and removes moves that have
// ended and whose marks do not show any more.
func (c *Controller) record(v *view) {
	for _, m := range c.moves.inOrder() {
		c.backOffs.set(m.newBackOffs)
		switch m.launchOutcome {
		case launchFailed:
			c.backOffs.poolsFailed(m.replacementPools(), v)
		case launchReady:
			c.backOffs.poolsSucceeded(m.replacementPools())
		}
		m.newBackOffs, m.launchOutcome = nil, launchUnknown
		if m.phase != ended {
			continue
		}
		c.outcomes.watch(m.displaced)
		m.displaced = nil
		if v.unmarked(m) {
			c.moves.remove(m)
			c.decider.search.wake = v.now // budgets allow disruptions again
		}
	}
}

// proceed takes the move from phase to phase until one has to wait.
func (x *executor) proceed(ctx context.Context, m *move, v *view) error {
	for {
		next, err := x.step(ctx, m, v)
		if err != nil {
			return fmt.Errorf("move %s of %d nodes (%s), %s: %w", m.id, len(m.all), m.Cause, m.phase, err)
		}
		if next == m.phase {
			return nil
		}
		m.enter(next, v.now, v.round)
	}
}

func (x *executor) step(ctx context.Context, m *move, v *view) (phase, error) {
	if m.mayLoseNodes() {
		m.drop(v.deletedOrDeleting(m)...)
		if len(m.Nodes) == 0 {
			return ended, nil
		}
	}
	return x.perform(ctx, m, x.runPhase(ctx, m, v))
}

// runPhase runs the move's phase.
func (x *executor) runPhase(ctx context.Context, m *move, v *view) conclusion {
	switch m.phase {
	case marking:
		return x.mark(ctx, m)
	case marked:
		return x.inspectMarked(ctx, m, v)
	case launching:
		return x.launch(ctx, m)
	case awaiting:
		return x.await(ctx, m, v)
	case deleting:
		return x.delete(ctx, m, v)
	case takingBack:
		return x.takeBackMove(ctx, m, v)
	case ended:
		return x.unmarkAgain(ctx, m, v)
	}
	return conclusion{next: m.phase}
}

// forEach calls do for every key, concurrently, and returns the errors by key.
func forEach(keys []string, do func(key string) error) map[string]error {
	var (
		group panics.Group
		mu    sync.Mutex
		errs  = map[string]error{}
	)
	group.SetLimit(maxNodesAtOnce)
	for _, key := range keys {
		group.Go(func() error {
			if err := do(key); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs[key] = err
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil; errs has it all
	return errs
}
