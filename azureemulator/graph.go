package azureemulator

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// graphIndex is Resource Graph's copy of virtual machines and interfaces. It lags: a change
// shows some time after it happened, and what is gone stays for a while. It is kept up to
// date only while somebody asks; who asks first sees what has existed for longer than the
// lag. The server's mutex guards it.
type graphIndex struct {
	rows map[string]*graphRow // by lower-case id
	// watched is until when the index follows what happens; zero when nobody asked lately.
	watched time.Time
	window  graphWindow
}

// graphRow is a resource as the index shows it, and as it will.
type graphRow struct {
	shown, next json.RawMessage // as a list of resources has it; nil: not there
	due         time.Time       // when next is shown; zero when it is already
}

const (
	// graphLag is the most that the index is behind, at TimeScale 1. Microsoft aims at 30 s for
	// 95 of 100 changes and promises nothing for the rest.
	graphLag = time.Minute
	// graphLook is how often it looks for changes, and graphWatch for how long after a query.
	graphLook  = 2 * time.Second
	graphWatch = 10 * time.Minute
)

// follow brings the index as far as it has come by now. Callers hold mu.
func (s *Server) follow() {
	now := time.Now()
	if s.timeScale == 0 || s.graph.rows == nil {
		s.graph.rows = map[string]*graphRow{}
	}
	exists := map[string]bool{}
	look := func(c *common, row json.RawMessage) {
		id := strings.ToLower(c.id)
		exists[id] = true
		if r := s.graph.rows[id]; r != nil {
			s.see(r, row, now)
			return
		}
		r := &graphRow{}
		s.graph.rows[id] = r
		r.next, r.due = row, c.created.Add(s.lag())
		r.settle(now)
	}
	for _, k := range slices.Sorted(maps.Keys(s.vms)) { // in order, for the lags are drawn
		if row, err := s.vms[k].row(); err == nil {
			look(&s.vms[k].common, row)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.nics)) {
		if row, err := s.nics[k].row(); err == nil {
			look(&s.nics[k].common, row)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.graph.rows)) {
		r := s.graph.rows[id]
		if !exists[id] {
			s.see(r, nil, now)
		}
		if r.shown == nil && r.next == nil {
			delete(s.graph.rows, id)
		}
	}
}

// see notes what a resource looks like now.
func (s *Server) see(r *graphRow, row json.RawMessage, now time.Time) {
	r.settle(now)
	if !bytes.Equal(r.next, row) {
		if r.next = row; r.due.IsZero() {
			r.due = now.Add(s.lag())
		}
	}
	r.settle(now)
}

func (r *graphRow) settle(now time.Time) {
	if !r.due.IsZero() && !r.due.After(now) {
		r.shown, r.due = r.next, time.Time{}
	}
}

// lag is how long a change takes to show: mostly some seconds.
func (s *Server) lag() time.Duration {
	return s.scaled(min(s.chance.draw(Distribution{Median: 10 * time.Second, Sigma: 0.7}), graphLag))
}

// watch has the index follow what happens for a while. Callers hold mu.
func (s *Server) watch() {
	now, watching := time.Now(), !s.graph.watched.IsZero()
	s.graph.watched = now.Add(s.scaled(graphWatch))
	s.follow()
	if !watching && s.timeScale > 0 {
		s.lookAgain()
	}
}

func (s *Server) lookAgain() {
	s.afterScaled(graphLook, func() {
		if s.timeScale == 0 || time.Now().After(s.graph.watched) {
			s.graph = graphIndex{window: s.graph.window}
			return
		}
		s.follow()
		s.lookAgain()
	})
}

// graphView is a list's row as the graph has it: types and resource groups are lower-case, and
// the id's last segment has capitals of the graph's own now and then.
func graphView(row json.RawMessage) (map[string]any, error) {
	var view map[string]any
	if err := json.Unmarshal(row, &view); err != nil {
		return nil, err
	}
	id, _ := view["id"].(string)
	kind, _ := view["type"].(string)
	segments := strings.Split(id, "/") // "", subscriptions, S, resourceGroups, G, …
	group := strings.ToLower(segments[4])
	segments[4] = group
	last := len(segments) - 1
	segments[last] = odd(segments[last])
	view["id"], view["type"], view["resourceGroup"], view["subscriptionId"] = strings.Join(segments, "/"), strings.ToLower(kind), group, segments[2]
	if view["tags"] == nil {
		view["tags"] = nil // said, not left out
	}
	return view, nil
}

// odd spells every third name in capitals, always the same ones.
func odd(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	if h.Sum32()%3 != 0 {
		return name
	}
	return strings.Map(unicode.ToUpper, name)
}

// graphWindow counts a user's queries.
type graphWindow struct {
	ends  time.Time
	spent int
}

// A user has fifteen queries in every five seconds.
const (
	graphQueries = 15
	graphPeriod  = 5 * time.Second
)

// spend takes a query off the window; refused when there is none left and limits count.
// Callers hold mu.
func (s *Server) spend() (left int, resets time.Duration, refused bool) {
	now, w := time.Now(), &s.graph.window
	if !now.Before(w.ends) {
		*w = graphWindow{ends: now.Add(s.scaled(graphPeriod))}
	}
	if resets = w.ends.Sub(now); w.spent >= graphQueries {
		return 0, resets, s.throttles.enforced
	}
	w.spent++
	return graphQueries - w.spent, resets, false
}
