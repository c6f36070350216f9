// SPDX-License-Identifier: Apache-2.0

package armlist

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/ctxlock"
)

// A List is the cached list of one kind of resource in the node resource group. All callers that
// wait for such a resource share it: a hundred launches cost one list per interval, not a hundred
// reads.
type List[T any] struct {
	kind   string
	Rows   RowsFunc
	decode func(json.RawMessage) (T, error)
	name   func(T) string
	Join   func(former, later T) T // merges two rows about one resource
	Select func(T) bool            // resources that are looked for often; nil selects none
	// Owner returns the name of the NodeClaim of a row that cannot be decoded; empty when unknown.
	Owner func(json.RawMessage) string
	now   func() time.Time

	reading      ctxlock.Mutex
	decoded      map[string]decodedRow[T] // of the last list, by the row's JSON; guarded by reading
	mu           sync.Mutex
	last         View[T]
	readStarted  time.Time     // start of the list being read, or of the last one
	readDuration time.Duration // duration of the last list
}

// A View is a complete list. It holds every resource that existed when it was started.
type View[T any] struct {
	Started    time.Time
	ended      time.Time
	Pages      int
	ByName     map[string]T // keys in lower case; not to be changed
	Selected   []T          // sorted by name: few, and read often
	Unreadable []provider.Unreadable
}

// NotOlderThan returns a view that was started at t or later. Callers that arrive while one is
// being read share the next.
func (r *List[T]) NotOlderThan(ctx context.Context, t time.Time) (View[T], error) {
	if v := r.Last(); !v.Started.Before(t) && v.ByName != nil {
		return v, nil
	}
	if err := r.reading.Lock(ctx); err != nil {
		return View[T]{}, err
	}
	defer r.reading.Unlock()
	if v := r.Last(); !v.Started.Before(t) && v.ByName != nil {
		return v, nil
	}
	return r.read(ctx)
}

// TryNotOlderThan is like NotOlderThan, but never waits for another caller: while another caller
// reads the list, it returns the duration after which to try again, and no view. It reads the
// list itself when no other caller does, and waits only for the very first list. A list counts as
// new while its end is not before t: otherwise callers that return for a list that took longer
// than the maximum age would all find it too old.
func (r *List[T]) TryNotOlderThan(ctx context.Context, t time.Time) (v View[T], again time.Duration, err error) {
	switch v := r.Last(); {
	case v.ByName == nil:
		v, err = r.NotOlderThan(ctx, t)
		return v, 0, err
	case !v.ended.Before(t):
		return v, 0, nil
	}
	if !r.reading.TryLock() {
		return View[T]{}, r.remaining(), nil
	}
	defer r.reading.Unlock()
	if v := r.Last(); !v.ended.Before(t) {
		return v, 0, nil
	}
	v, err = r.read(ctx)
	return v, 0, err
}

// The bounds of the time after which a caller retries while a list is being read.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Second
)

// remaining estimates when the list being read will be ready, from the duration of the last one.
// If it takes longer than that, the estimate grows, so that callers retry less and less often.
func (r *List[T]) remaining() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	elapsed := r.now().Sub(r.readStarted)
	return max(minRetry, r.readDuration-elapsed, min(elapsed/4, maxRetry))
}

func (r *List[T]) Last() View[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// read lists the resources and stores a new view. Rows that did not change are not decoded
// again.
func (r *List[T]) read(ctx context.Context) (View[T], error) {
	v := View[T]{Started: r.now(), ByName: map[string]T{}}
	r.mu.Lock()
	r.readStarted = v.Started
	r.mu.Unlock()
	rows, pages, err := r.Rows(ctx)
	if err != nil {
		return View[T]{}, armerr.Wrap(err, "listing %s", r.kind)
	}
	v.Pages = pages
	known := make(map[string]decodedRow[T], len(rows))
	for _, row := range rows {
		e, err := r.decodeChanged(row)
		if err != nil {
			v.Unreadable = append(v.Unreadable, r.unreadable(row, err))
			continue
		}
		known[e.row] = e
		item := e.item
		name := strings.ToLower(r.name(item))
		if former, twice := v.ByName[name]; twice && r.Join != nil {
			item = r.Join(former, item)
		}
		v.ByName[name] = item
	}
	r.decoded = known
	v.Selected = r.selectedOf(v.ByName)
	r.mu.Lock()
	defer r.mu.Unlock()
	v.ended = r.now()
	r.last, r.readDuration = v, v.ended.Sub(v.Started)
	return v, nil
}

func (r *List[T]) selectedOf(byName map[string]T) []T {
	if r.Select == nil {
		return nil
	}
	var all []T
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if r.Select(byName[name]) {
			all = append(all, byName[name])
		}
	}
	return all
}

// A decodedRow is a row and the resource decoded from it.
type decodedRow[T any] struct {
	row  string
	item T
}

func (r *List[T]) decodeChanged(row json.RawMessage) (decodedRow[T], error) {
	if e, ok := r.decoded[string(row)]; ok {
		return e, nil
	}
	item, err := r.decode(row)
	if err == nil && r.name(item) == "" {
		err = errors.New("it lacks its name or its properties")
	}
	return decodedRow[T]{string(row), item}, err
}

// unreadable describes a row that cannot be decoded, as far as possible.
func (r *List[T]) unreadable(row json.RawMessage, why error) provider.Unreadable {
	var name struct{ Name string }
	_ = json.Unmarshal(row, &name) // best effort
	u := provider.Unreadable{Kind: r.kind, Name: name.Name, Why: armerr.Shorten(why.Error())}
	if r.Owner != nil {
		u.Claim = r.Owner(row)
	}
	return u
}

// MayContain reports whether a row that could not be decoded may have that name.
func (v View[T]) MayContain(name string) bool {
	for _, row := range v.Unreadable {
		if row.Name == "" || strings.EqualFold(row.Name, name) {
			return true
		}
	}
	return false
}

// New returns a list of the resources that rows lists.
func New[T any](what string, now func() time.Time, rows RowsFunc, decode func(json.RawMessage) (T, error), name func(T) string) *List[T] {
	return &List[T]{kind: what, now: now, reading: ctxlock.New(), Rows: rows, decode: decode, name: name}
}

// RowsFunc lists rows, and says how many pages they came on.
type RowsFunc = func(context.Context) (rows []json.RawMessage, pages int, err error)
