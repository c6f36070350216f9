// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"time"
)

// takeBackMove takes a move back: its nodes accept pods again, and replacements that no pod uses
// are deleted.
//
// The marks are removed before the replacements are deleted. A static NodePool counts a marked
// node and its replacement as one: if the replacement were deleted first, the NodePool would
// launch another.
func (x *executor) takeBackMove(ctx context.Context, m *move, v *view) conclusion {
	givesUp := v.now.Sub(m.since) >= retryRefused
	if err := x.markTakenBack(ctx, m); err != nil && !givesUp {
		return conclusion{next: takingBack, err: err}
	}
	err := x.unmark(ctx, m)
	if err != nil && !givesUp {
		return conclusion{next: takingBack, err: err}
	}
	errs := []error{err}
	for _, err := range forEach(m.replacementNames(), func(name string) error { return x.deleter.discard(ctx, name, m.id) }) {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return conclusion{next: takingBack, err: err}
	}
	return conclusion{next: ended}
}

// markTakenBack records on the mark of every node that the move is taken back, before the first
// mark is removed: a leader that finds all replacements continues the move otherwise.
func (x *executor) markTakenBack(ctx context.Context, m *move) error {
	if m.marksSayTakenBack || !m.replaces() {
		return nil
	}
	mark := m.mark()
	mark.TakenBack = true
	var errs []error
	for _, err := range forEach(m.Nodes, func(key string) error { return x.marks.rewrite(ctx, key, mark.String(), x.backOffOf(m, key)) }) {
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	m.marksSayTakenBack = err == nil
	return err
}

// unmark takes the marks off the move's nodes. Decisions count each node as staying as soon as its
// marks are removed: one that cannot be written must not delay the others.
func (x *executor) unmark(ctx context.Context, m *move) error {
	failed := forEach(m.Nodes, func(key string) error { return x.marks.remove(ctx, key, x.backOffOf(m, key)) })
	var errs []error
	var unmarked []string
	for _, key := range m.Nodes {
		if err := failed[key]; err != nil {
			errs = append(errs, err)
			continue
		}
		unmarked = append(unmarked, key)
	}
	if m.begunInMirror {
		x.cancelMove(unmarked, m.replacementNames())
	}
	m.drop(unmarked...)
	m.begunInMirror = m.begunInMirror && len(errs) > 0
	return errors.Join(errs...)
}

// marksShowFor is how long the mirror may show marks after they were removed.
const marksShowFor = 10 * time.Second

// unmarkAgain removes marks that still show after the move has ended: nothing else would.
func (x *executor) unmarkAgain(ctx context.Context, m *move, v *view) conclusion {
	if v.now.Sub(m.since) < marksShowFor {
		return conclusion{next: ended}
	}
	m.since = v.now // retry refused writes later
	var errs []error
	for _, key := range m.all {
		if showsMarks(v.byClaim[key]) {
			errs = append(errs, x.marks.remove(ctx, key, x.backOffOf(m, key)))
		}
	}
	return conclusion{next: ended, err: errors.Join(errs...)}
}
