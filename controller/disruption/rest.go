package disruption

import (
	"maps"
	"time"

	"github.com/karve-dev/karve/kube"
)

const (
	// firstRest is how long a node is left alone after a move of it failed; each further
	// failure doubles it, up to longestRest.
	firstRest, longestRest = time.Minute, time.Hour
	// enough is how many moves in a row must fail for want of replacements from a pool
	// before it rests.
	enough = 3
	// forgive is how long after its rest something that failed before counts as new.
	forgive = time.Hour
	// countless is how many failures are told apart at most.
	countless = 100
)

// rest is who failed, how often, and until when nothing is tried.
type rest struct {
	kube.Rest
	round int // of the last failure
}

// rests are what failed not long ago. The zero rests are nothing.
type rests struct {
	nodes  map[string]rest // by key
	byPool map[string]rest // by name
}

// next is the node's rest after one more failure, which the rests do not know of before
// they are told (see set): moves that fail side by side may only look.
func (r *rests) next(key string, now time.Time) rest { return r.nodes[key].longer(now, 1) }

// set has nodes rest.
func (r *rests) set(nodes map[string]rest) {
	if r.nodes == nil {
		r.nodes = map[string]rest{}
	}
	maps.Copy(r.nodes, nodes)
}

// pools has pools rest once too many moves that bought there failed in a row. Moves that fail at one
// time count once: one stock-out strikes them all.
func (r *rests) pools(names map[string]bool, s *sight) {
	if r.byPool == nil {
		r.byPool = map[string]rest{}
	}
	for pool := range names {
		if x := r.byPool[pool]; x.round != s.round {
			x = x.longer(s.now, enough)
			x.round = s.round
			r.byPool[pool] = x
		}
	}
}

// longer is the rest after one more failure; those before the first tolerated count
// for nothing.
func (x rest) longer(now time.Time, tolerated int) rest {
	x.Failures = min(x.Failures+1, countless)
	if over := x.Failures - tolerated; over >= 0 {
		x.Until = now.Add(min(firstRest<<min(over, 10), longestRest))
	} else {
		x.Until = now
	}
	return x
}

// relieve forgets the failures of pools from which replacements came.
func (r *rests) relieve(names map[string]bool) {
	for pool := range names {
		delete(r.byPool, pool)
	}
}

// current lists who rests, and forgets what was long ago.
func (r *rests) current(now time.Time) map[string]time.Time {
	old := func(_ string, x rest) bool { return now.Sub(x.Until) > forgive }
	maps.DeleteFunc(r.nodes, old)
	maps.DeleteFunc(r.byPool, old)
	out := map[string]time.Time{}
	for key, x := range r.nodes {
		if now.Before(x.Until) {
			out[key] = x.Until
		}
	}
	return out
}

// read is a rest that an earlier process wrote down. No clock of ours ever wrote a longer
// one.
func (x rest) read(from kube.Rest, now time.Time) rest {
	x.Rest = from
	x.Failures = min(x.Failures, countless)
	if latest := now.Add(longestRest); x.Until.After(latest) {
		x.Until = latest
	}
	return x
}
