package disruption

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
)

// Controller moves pods onto fewer, cheaper or newer nodes.
type Controller struct {
	Client client.Client
	// Live reads past the cache: before a node goes, and whenever what is written depends
	// on what is there.
	Live    client.Reader
	Mirror  *kube.Mirror
	Catalog *catalog.Keeper
	Events  *events.Recorder
	Metrics *metrics.Set
	Log     logr.Logger
	// Buffers know which nodes have room for capacity buffers; nil when nobody asks for any.
	Buffers *buffer.Keeper
	// Surges know which pods leave their nodes although no eviction is allowed; nil when
	// none do.
	Surges surger
	// Settings hold for every decision. Settings.Steps bounds how long provisioning
	// may have to wait for one; zero means no bound.
	Settings disrupt.Settings
	// Validation is how long a move that nobody is in a hurry for, of empty or
	// underutilized nodes, must stay right before it begins. Zero: it begins at once.
	Validation time.Duration
	// Every is how often nodes are looked at; zero means every second.
	Every time.Duration
	// Search and Recheck decide; nil means disrupt.Search and disrupt.Recheck.
	Search  func(*cluster.Snapshot, disrupt.Cluster, disrupt.Cursor) disrupt.Plan
	Recheck func(*cluster.Snapshot, disrupt.Cluster, disrupt.Move) (disrupt.Move, disrupt.Kept)

	// sleep is until when nothing is to be done if the mirror still is as it was seen.
	sleep time.Time
	seen  uint64
	round int
	moves map[string]*move // by ID
	rests rests
	// relapses are consolidations that did not come true.
	relapses relapses
	// notes are what of that is written down.
	notes notes
	// orphans are replacements of no move, since when.
	orphans map[string]time.Time
	// surges are pods that leave without an eviction.
	surges surges
	// search is where the search under way continues.
	search search
}

// Start looks at the nodes again and again until the context ends.
func (c *Controller) Start(ctx context.Context) error {
	every := c.Every
	if every <= 0 {
		every = time.Second
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		if err := c.Disrupt(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error(err, "disruption failed in part")
		}
	}
}

// Disrupt does one round: what is under way goes one step on, then more is decided.
// What fails is tried again with the next round.
func (c *Controller) Disrupt(ctx context.Context) error {
	if !c.Mirror.Synced() {
		return nil
	}
	if now := time.Now(); c.asleep(now) {
		return nil
	}
	c.round++
	s := c.read(time.Now())
	if c.surging(ctx, s) {
		s = c.read(s.now)
	}
	c.recall(s)
	err := c.sweep(ctx, s) // before anything is decided: budgets count what an earlier process began
	c.relapsed(s)          // what rests since is not validated
	c.validate(s)
	err = errors.Join(err, c.advance(ctx, s))
	if c.decide(ctx, s) {
		err = errors.Join(err, c.advance(ctx, s))
	}
	err = errors.Join(err, c.remember(ctx, s), c.stamp(ctx, s))
	c.drowse(s, err)
	return err
}

// dozing bounds for how long nobody looks at a cluster in which nothing happens.
const dozing = 5 * time.Second

// asleep reports whether a round would find what the last one did.
func (c *Controller) asleep(now time.Time) bool {
	return now.Before(c.sleep) && c.seen == c.Mirror.Revision()
}

// drowse says until when nothing happens by itself.
func (c *Controller) drowse(s *sight, err error) {
	c.sleep = time.Time{}
	if err != nil || len(c.moves) > 0 || c.search.running {
		return
	}
	c.seen, c.sleep = s.revision, s.now.Add(dozing)
	sooner := func(t time.Time) {
		if t.Before(c.sleep) {
			c.sleep = t
		}
	}
	sooner(c.search.wake)
	if c.seen != c.search.revision {
		sooner(c.search.again)
	}
	for i := range s.nodes {
		pool := s.pools[s.nodes[i].Pool]
		if at, quiet := disrupt.Quiet(&s.nodes[i], &pool, s.now); !quiet && at.After(s.now) {
			sooner(at)
		}
	}
}
