// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// breaks has the connection break, after a while.
func breaks(after time.Duration) func(*fault) {
	return func(f *fault) { f.breaks, f.delay = true, after }
}

// hangs has no answer come for ten minutes, as when a firewall drops it, or until the client
// gives up.
func hangs(f *fault) { f.hangs, f.breaks, f.before, f.delay = true, true, true, 10*time.Minute }

// before has a fault strike before the request is carried out.
func before(f *fault) { f.before = true }

// twice has a request carried out a second time; the first answer is lost.
func twice(f *fault) { f.twice = true }

// changes has the request carried out, and its answer changed.
func changes(change func(*answerWriter)) func(*fault) {
	return func(f *fault) { f.change = change }
}

// unchanged leaves an answer as it is: it is struck otherwise.
func unchanged(*answerWriter) {}

// dribbles has headers come at once and the body little by little.
func dribbles(over time.Duration) func(*fault) {
	return func(f *fault) { f.dribbles, f.change = over, unchanged }
}

// reorders has answers overtake each other.
func reorders(f *fault) { f.reorders, f.waiting, f.change = true, new(chan struct{}), unchanged }

// handles reports whether the fault strikes otherwise than by a refusal.
func (f *fault) handles() bool { return f.change != nil || f.breaks || f.line != "" }

// strike answers a request that a fault without a refusal strikes.
func (fs *faults) strike(w http.ResponseWriter, r *http.Request, f *fault, serve func(http.ResponseWriter)) {
	answer := &answerWriter{header: http.Header{}}
	if !f.before {
		serve(answer)
	}
	if f.twice {
		*answer = answerWriter{header: http.Header{}}
		serve(answer)
	}
	fs.hold(w, r, f)
	if f.line != "" {
		fs.hangUp(w, r, f.line)
	}
	if f.breaks {
		panic(http.ErrAbortHandler) // how a handler says that nothing more will come
	}
	f.change(answer)
	for name, values := range answer.header {
		w.Header()[name] = values
	}
	answer.WriteHeader(http.StatusOK)
	w.WriteHeader(answer.status)
	if f.dribbles > 0 {
		fs.dribble(w, r, answer.body.Bytes(), fs.clock.pace(f.dribbles))
		return
	}
	_, _ = w.Write(answer.body.Bytes()) // a client that went away loses it
}

// hold keeps an answer back for as long as the fault says. A client that gives up meanwhile
// has none.
func (fs *faults) hold(w http.ResponseWriter, r *http.Request, f *fault) {
	if f.reorders {
		fs.overtaken(r.Context(), f)
	}
	if f.delay > 0 {
		wait(r.Context(), fs.clock.pace(f.delay))
	}
	err := r.Context().Err()
	if answer, inProcess := w.(*answerWriter); inProcess && err != nil {
		answer.broken = err
		panic(http.ErrAbortHandler)
	}
}

// wait ends with the client's patience, if that is shorter.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// overtaken waits until the next answer that is struck is a second ahead, for half a minute
// at most; unless it is that one itself.
func (fs *faults) overtaken(ctx context.Context, f *fault) {
	fs.clock.Lock()
	ahead := *f.waiting
	if *f.waiting = nil; ahead == nil {
		*f.waiting = make(chan struct{})
	}
	mine := *f.waiting
	fs.clock.Unlock()
	if ahead != nil {
		close(ahead)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, fs.clock.pace(30*time.Second))
	defer cancel()
	select {
	case <-ctx.Done():
		fs.clock.Lock()
		if *f.waiting == mine {
			*f.waiting = nil
		}
		fs.clock.Unlock()
	case <-mine:
		wait(ctx, fs.clock.pace(time.Second))
	}
}

// pieces is in how many a body comes that dribbles.
const pieces = 10

// dribble sends a body over so long.
func (fs *faults) dribble(w http.ResponseWriter, r *http.Request, body []byte, over time.Duration) {
	if answer, inProcess := w.(*answerWriter); inProcess {
		answer.body.Write(body)
		answer.dribbles = over // while it is read
		return
	}
	flush := http.NewResponseController(w)
	for piece := range slices.Chunk(body, 1+len(body)/pieces) {
		_ = flush.Flush() // a client that went away reads nothing
		wait(r.Context(), over/pieces)
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// A dribble is a body that is read in pieces, each after a while.
type dribble struct {
	ctx    context.Context
	body   *bytes.Buffer
	piece  int
	period time.Duration
	ready  int // bytes of a piece that has come
}

func (d *dribble) Read(p []byte) (int, error) {
	if d.ready == 0 && d.body.Len() > 0 {
		wait(d.ctx, d.period)
		d.ready = d.piece
	}
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := d.body.Read(p[:min(len(p), max(d.ready, 1))])
	d.ready -= n
	return n, err
}

func (d *dribble) Close() error { return nil }

// edit changes a document in an answer; anything else stays as it is.
func edit(w *answerWriter, change func(map[string]any)) {
	var document map[string]any
	if json.Unmarshal(w.body.Bytes(), &document) != nil {
		return
	}
	change(document)
	raw, err := json.Marshal(document)
	if err != nil {
		return
	}
	w.body.Reset()
	w.body.Write(raw)
}

// listCut leaves a share of a list, and no further pages.
func listCut(share float64) func(*answerWriter) {
	return func(w *answerWriter) {
		edit(w, func(d map[string]any) {
			for _, name := range []string{"value", "Items"} {
				if items, is := d[name].([]any); is {
					d[name] = items[:int(float64(len(items))*share)]
				}
			}
			delete(d, "nextLink")
			delete(d, "NextPageLink")
		})
	}
}

// pricesBy changes every price of a page.
func pricesBy(of func(float64) float64) func(*answerWriter) {
	return func(w *answerWriter) {
		edit(w, func(d map[string]any) {
			items, _ := d["Items"].([]any)
			for _, item := range items {
				row, _ := item.(map[string]any)
				for _, name := range []string{"retailPrice", "unitPrice"} {
					if p, is := row[name].(float64); is {
						row[name] = of(p)
					}
				}
			}
		})
	}
}

// editRows changes every row of a list.
func editRows(w *answerWriter, change func(i int, row map[string]any)) {
	edit(w, func(d map[string]any) {
		for _, name := range []string{"value", "Items"} {
			rows, _ := d[name].([]any)
			for i, row := range rows {
				change(i, object(row))
			}
		}
	})
}

// everySecondRestricted takes every second size from the subscription.
func everySecondRestricted(w *answerWriter) {
	editRows(w, func(i int, row map[string]any) {
		if i%2 == 1 {
			row["restrictions"] = []any{map[string]any{
				"type": "Location", "reasonCode": "NotAvailableForSubscription", "values": row["locations"],
				"restrictionInfo": map[string]any{"locations": row["locations"]},
			}}
		}
	})
}

// withoutLimits says -1, which Azure has for no limit at all.
func withoutLimits(w *answerWriter) {
	editRows(w, func(_ int, row map[string]any) { row["limit"] = -1 })
}

// inEuro has prices in a currency that the client did not ask for.
func inEuro(w *answerWriter) {
	editRows(w, func(_ int, row map[string]any) { row["currencyCode"] = "EUR" })
}
