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
	first time.Duration
	quick int // quick ends in sequence, soon after their start
}

const (
	// soundRun is how long karve runs until its end is no quick one.
	soundRun = time.Minute
	// mostQuick is how many quick ends in sequence are followed by another start. A karve that
	// never becomes ready has a reason, which its log shows.
	mostQuick = 5
)

// after returns how long to wait after an end; ok is false where there is no other start.
func (r *restarts) after(ran time.Duration) (pause time.Duration, ok bool) {
	if ran >= soundRun {
		r.quick = 0
	}
	r.quick++
	if r.quick > mostQuick {
		return 0, false
	}
	first := r.first
	if first == 0 {
		first = time.Second
	}
	return first << (r.quick - 1), true
}

// keep restarts karve whenever it ends by itself, until ctx ends or it has ended too often.
// It reports its actions to notice.
func (k *karve) keep(ctx context.Context) {
	for {
		process, asked := k.ended(ctx)
		switch {
		case process == nil:
			return
		case asked:
			if !k.startedAnew(ctx) {
				return
			}
		case !k.revive(ctx, process):
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

// startedAnew waits until karve, which was ended, is started by the same hand.
func (k *karve) startedAnew(ctx context.Context) bool {
	select {
	case <-k.started:
		return true
	case <-ctx.Done():
		return false
	}
}

// revive starts karve in place of a process that ended by itself. It returns false where it does
// not: ctx ended, or keep has given karve up.
func (k *karve) revive(ctx context.Context, process *child) bool {
	pause, ok := k.restarts.after(time.Since(process.began))
	if !ok {
		k.giveUp(fmt.Errorf("karve ended by itself %d times in a row, each within %s of its start, and is not started again: %w",
			mostQuick+1, soundRun, k.obituary(process)))
		return false
	}
	k.notice(fmt.Sprintf("karve ended by itself (%v); it is started again in %s, as a Deployment would. Its log: %s", process.err, pause, k.log))
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
		k.notice("karve is up again")
	}
	return true
}

// giveUp records why karve is not started again.
func (k *karve) giveUp(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure = why
	close(k.over)
}

// gaveUp is nil until keep has given karve up.
func (k *karve) gaveUp() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// goneForGood is closed when karve has ended and is not started again.
func (k *karve) goneForGood() <-chan struct{} {
	if k.notice != nil {
		return k.over
	}
	process, _ := k.current()
	return process.ended
}
