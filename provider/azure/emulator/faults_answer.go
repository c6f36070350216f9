package emulator

import (
	"context"
	"encoding/json"
	"net/http"
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

// strike answers a request that a fault without a refusal strikes.
func (s *Server) strike(w http.ResponseWriter, r *http.Request, f *fault, serve func(http.ResponseWriter)) {
	answer := &answerWriter{header: http.Header{}}
	if !f.before {
		serve(answer)
	}
	if f.twice {
		*answer = answerWriter{header: http.Header{}}
		serve(answer)
	}
	switch {
	case f.hangs:
		wait(r.Context(), s.pace(f.delay))
	case f.delay > 0:
		time.Sleep(s.pace(f.delay))
	}
	if f.line != "" {
		s.hangUp(w, r, f.line)
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
	_, _ = w.Write(answer.body.Bytes()) // a client that went away loses it
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

// pace is a delay at the emulator's pace.
func (s *Server) pace(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scaled(d)
}

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

// inEuro has prices in a currency that nobody asked for.
func inEuro(w *answerWriter) {
	editRows(w, func(_ int, row map[string]any) { row["currencyCode"] = "EUR" })
}

// Quirks are what machines do that they should not.
const (
	stuckCreating = "StuckCreating" // a creation never ends
	stuckDeleting = "StuckDeleting" // a deletion does not end, unless it is asked for again
	lateSuccess   = "LateSuccess"   // a creation is reported as failed, and succeeds a minute later
	lateFailure   = "LateFailure"   // a creation is reported as done, and has failed twenty seconds later
)

// late is how much later than its failure was reported a machine comes up after all.
const late = time.Minute

// turnsOut is how much later than its success was reported a machine turns out to have
// failed: before most have booted.
const turnsOut = 20 * time.Second

func (s *Server) addQuirk(name string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quirks == nil {
		s.quirks = map[string]int{}
	}
	if times == 0 {
		times = 1
	}
	s.quirks[name] = times
}

// quirk spends one of a quirk's times. Callers hold mu.
func (s *Server) quirk(name string) bool {
	left := s.quirks[name]
	if left == 0 {
		return false
	}
	s.quirks[name] = max(left-1, -1)
	return true
}
