// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"time"
)

// restarts decide when karve is started again after it ended by itself, as the kubelet does for
// a Deployment's pod: after a pause that doubles with each quick end. The zero value works.
type restarts struct {
	// first is the pause after the first quick end. Zero means 1s.
	first     time.Duration
	quickEnds int // quick ends in sequence, soon after their start
}

const (
	// healthyRun is how long karve runs until its end is no quick one.
	healthyRun = time.Minute
	// maxQuickEnds is how many quick ends in sequence are followed by another start. A karve that
	// never becomes ready has a reason, which its log shows.
	maxQuickEnds = 5
)

// after returns how long to wait after an end; ok is false where there is no other start.
func (r *restarts) after(ran time.Duration) (pause time.Duration, ok bool) {
	if ran >= healthyRun {
		r.quickEnds = 0
	}
	r.quickEnds++
	if r.quickEnds > maxQuickEnds {
		return 0, false
	}
	first := r.first
	if first == 0 {
		first = time.Second
	}
	return first << (r.quickEnds - 1), true
}

// restartWhenEnded restarts karve whenever it ends by itself, until ctx ends or it has ended too often.
// It reports its actions to onRestart.
func (k *karve) restartWhenEnded(ctx context.Context) {
	for {
		process, asked := k.ended(ctx)
		switch {
		case process == nil:
			return
		case asked:
			if !k.awaitStart(ctx) {
				return
			}
		case !k.restart(ctx, process):
			return
		}
	}
}

// ended waits for the end of the process, and reports whether it was requested. The process is nil
// when ctx ended first.
func (k *karve) ended(ctx context.Context) (process *child, asked bool) {
	process, _ = k.current()
	select {
	case <-process.ended:
		return process, process.asked.Load()
	case <-ctx.Done():
		return nil, false
	}
}

// awaitStart waits until karve, which was ended by a call, is started by one.
func (k *karve) awaitStart(ctx context.Context) bool {
	select {
	case <-k.started:
		return true
	case <-ctx.Done():
		return false
	}
}

// restart starts karve in place of a process that ended by itself. It returns false where it does
// not: ctx ended, or restartWhenEnded has given karve up.
func (k *karve) restart(ctx context.Context, process *child) bool {
	pause, ok := k.restarts.after(time.Since(process.began))
	if !ok {
		k.giveUp(fmt.Errorf("karve ended by itself %d times in a row, each within %s of its start, and is not started again: %w",
			maxQuickEnds+1, healthyRun, k.endError(process)))
		return false
	}
	k.onRestart(fmt.Sprintf("karve ended by itself (%v); it is started again in %s, as a Deployment would. Its log: %s", process.err, pause, k.log))
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	if now, _ := k.current(); now != process {
		return true // StartKarve was called meanwhile
	}
	if err := k.launch(ctx); err != nil {
		k.giveUp(fmt.Errorf("starting karve again: %w", err))
		return false
	}
	if k.waitReady(ctx) == nil {
		k.onRestart("karve is up again")
	}
	return true
}

// giveUp records why karve is not started again.
func (k *karve) giveUp(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = why
	close(k.givenUp)
}

// givenUpError is nil until restartWhenEnded has given karve up.
func (k *karve) givenUpError() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// endedForGood is closed when karve has ended and is not started again.
func (k *karve) endedForGood() <-chan struct{} {
	if k.onRestart != nil {
		return k.givenUp
	}
	process, _ := k.current()
	return process.ended
}
