// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Transport carries the requests of one process to the server. The process can be killed and paused.
type Transport struct {
	server  *Server
	process string

	mu      sync.Mutex
	killed  chan struct{}
	resumed chan struct{} // closed unless the process is paused
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

var errKilled = errors.New("the process was killed")

// Kill has no further request of the process reach the server, and no answer the process.
func (t *Transport) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.killed:
	default:
		close(t.killed)
	}
	t.server.ring()
}

// Pause holds back requests and answers until Resume, as when a process is stopped by a signal.
func (t *Transport) Pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resumed = make(chan struct{})
}

// Resume undoes Pause.
func (t *Transport) Resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.resumed:
	default:
		close(t.resumed)
	}
}

func (t *Transport) isKilled() bool {
	select {
	case <-t.killed:
		return true
	default:
		return false
	}
}

// travel is the way to the server or back.
func (t *Transport) travel(ctx context.Context, takes time.Duration) error {
	if err := t.sleep(ctx, takes); err != nil {
		return err
	}
	t.mu.Lock()
	resumed := t.resumed
	t.mu.Unlock()
	if t.isKilled() {
		return errKilled
	}
	select {
	case <-resumed:
		return nil
	case <-t.killed:
		return errKilled
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sleep has time pass, unless the process is killed meanwhile.
func (t *Transport) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-t.killed:
		return errKilled
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry brings a request to the server, with what goes wrong on the way, and the answer back.
func (t *Transport) carry(q *request) (answer, error) {
	s := t.server
	takes := s.requestTakes()
	if err := t.travel(q.ctx, takes); err != nil {
		return answer{}, err
	}
	if _, yes := s.faults.strikes(q, Unreachable); yes {
		return answer{}, errRefused
	}
	if f, yes := s.faults.strikes(q, Slow); yes {
		if err := t.travel(q.ctx, f.Delay); err != nil {
			return answer{}, err
		}
	}
	if s.options.OnRequest != nil {
		s.options.OnRequest(q.attributes())
	}
	if err := s.faults.refuse(q); err != nil {
		return refusal(err), t.travel(q.ctx, takes)
	}
	if q.verb == "watch" {
		return t.watch(q), nil
	}
	a := s.serve(q)
	if err := t.travel(q.ctx, takes); err != nil {
		return answer{}, err
	}
	if q.writes() {
		if _, yes := s.faults.strikes(q, LostAnswer); yes {
			return answer{}, errReset
		}
		if _, yes := s.faults.strikes(q, Timeout); yes {
			return refusal(timeout()), nil
		}
	}
	return a, nil
}
