package disruption

import (
	"maps"
	"time"
)

const (
	// firstRest is how long a node is left alone after a move of it failed; each further
	// failure doubles it, up to longestRest.
	firstRest, longestRest = time.Minute, time.Hour
	// enough is how many moves in a row must fail for want of replacements before the
	// whole pool rests.
	enough = 3
	// forgive is how long after its rest something that failed before counts as new.
	forgive = time.Hour
)

// rest is who failed, how often, and until when nothing is tried.
type rest struct {
	failures int
	until    time.Time
	round    int // of the last failure
}

// rests are what failed not long ago. The zero rests are nothing; forgetting them is
// harmless.
type rests struct {
	nodes  map[string]rest // by key
	byPool map[string]rest // by name
}

// node has a node rest after one more failure.
func (r *rests) node(key string, now time.Time) {
	if r.nodes == nil {
		r.nodes = map[string]rest{}
	}
	r.nodes[key] = r.nodes[key].longer(now, 1)
}

// pools has the pools of nodes rest once too many moves failed in a row. Moves that
// fail at one time count once: one stock-out strikes them all.
func (r *rests) pools(keys []string, s *sight) {
	if r.byPool == nil {
		r.byPool = map[string]rest{}
	}
	for _, key := range keys {
		pool := s.machines[key].World.Pool
		if x := r.byPool[pool]; pool != "" && x.round != s.round {
			x = x.longer(s.now, enough)
			x.round = s.round
			r.byPool[pool] = x
		}
	}
}

// longer is the rest after one more failure; those before the first tolerated count
// for nothing.
func (x rest) longer(now time.Time, tolerated int) rest {
	x.failures++
	if over := x.failures - tolerated; over >= 0 {
		x.until = now.Add(min(firstRest<<min(over, 10), longestRest))
	} else {
		x.until = now
	}
	return x
}

// relieve forgets the failures of the pools of nodes whose replacements came.
func (r *rests) relieve(keys []string, s *sight) {
	for _, key := range keys {
		delete(r.byPool, s.machines[key].World.Pool)
	}
}

// current lists who rests, and forgets what was long ago.
func (r *rests) current(now time.Time) map[string]time.Time {
	old := func(_ string, x rest) bool { return now.Sub(x.until) > forgive }
	maps.DeleteFunc(r.nodes, old)
	maps.DeleteFunc(r.byPool, old)
	out := map[string]time.Time{}
	for key, x := range r.nodes {
		if now.Before(x.until) {
			out[key] = x.until
		}
	}
	return out
}
