// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/control"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube/state"
)

// Options configure a Controller. A field is required unless its comment explains its
// zero value.
type Options struct {
	Client client.Client
	// Live reads past the cache: before a node is deleted, and whenever a write depends on the
	// newest version of an object.
	Live    client.Reader
	Mirror  *state.Mirror
	Catalog *catalog.Keeper
	Events  *events.Recorder
	Metrics *metrics.Set
	Log     logr.Logger
	// Buffers know which nodes hold capacity for CapacityBuffers; nil when the feature is off.
	Buffers *buffer.Keeper
	// Surges know which pods leave their nodes although no eviction is allowed; nil when
	// no pod does.
	Surges Surger
	// Pause says whether an operator has paused voluntary disruption; nil when none can.
	Pause *control.Pause
	// Guards limit how many nodes moves take away and launch; the zero value limits none.
	Guards guard.Guards
	// Settings hold for every decision. Settings.MaxSteps bounds how long provisioning
	// may have to wait for one; zero means no bound.
	Settings disrupt.Settings
	// Validation is how long a consolidation must remain valid before its nodes are marked.
	// Zero: they are marked at once.
	Validation time.Duration
	// Every is the pause between rounds; zero means one second.
	Every time.Duration
	// Search and Recheck decide; nil means disrupt.Search and disrupt.Recheck.
	Search  func(*cluster.Snapshot, disrupt.Input, disrupt.Cursor) disrupt.Plan
	Recheck func(*cluster.Snapshot, disrupt.Input, disrupt.Move) (disrupt.Move, disrupt.Kept)
}

// Controller moves pods onto fewer, cheaper or newer nodes. See New.
type Controller struct {
	mirror      *state.Mirror
	log         logr.Logger
	every       time.Duration
	round       int
	idle        idle
	observer    observer
	surging     *surgingPods
	moves       *moves
	backOffs    *backOffs
	outcomes    *outcomes
	annotations *annotationStore
	recovery    *recovery
	decider     *decider
	executor    *executor
	report      *reporter
	pause       *control.Pause
	writer      client.Client // of status
}

// New returns a Controller that has no move in progress.
func New(o Options) *Controller {
	report := &reporter{events: o.Events, metrics: o.Metrics, log: o.Log, mirror: o.Mirror, validation: o.Validation}
	moves, backOffs := &moves{}, &backOffs{}
	surging := &surgingPods{surger: o.Surges, mirror: o.Mirror, log: o.Log}
	outcomes := &outcomes{mirror: o.Mirror, report: report, disabled: o.Settings.Upstream}
	marks := &marker{client: o.Client, live: o.Live, log: o.Log}
	deleter := &deleter{client: o.Client, live: o.Live, mirror: o.Mirror, log: o.Log}
	executor := &executor{
		mirror: o.Mirror, marks: marks, deleter: deleter, outcomes: outcomes, backOffs: backOffs, report: report,
		inspector: &inspector{client: o.Client, live: o.Live, surging: surging},
		launcher:  &launcher{client: o.Client, live: o.Live, mirror: o.Mirror, catalog: o.Catalog, report: report},
	}
	return &Controller{
		mirror: o.Mirror, log: o.Log, every: o.Every, writer: o.Client, pause: o.Pause,
		observer: observer{mirror: o.Mirror, buffers: o.Buffers, events: o.Events, expectedStay: o.Settings.ExpectedStay},
		surging:  surging, moves: moves, backOffs: backOffs, outcomes: outcomes, executor: executor, report: report,
		annotations: &annotationStore{client: o.Client, live: o.Live, mirror: o.Mirror, log: o.Log, backOffs: backOffs, outcomes: outcomes},
		recovery:    &recovery{moves: moves, marks: marks, deleter: deleter, executor: executor, log: o.Log},
		decider:     newDecider(o, moves, backOffs, outcomes),
	}
}

// Start does rounds until the context ends.
func (c *Controller) Start(ctx context.Context) error {
	every := c.every
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
			c.log.Error(err, "disruption failed in part")
		}
	}
}

// Disrupt does one round: it takes the moves in progress one step on, then decides about more.
// The next round retries what fails.
func (c *Controller) Disrupt(ctx context.Context) error {
	if !c.mirror.Synced() {
		return nil
	}
	if c.idle.holds(time.Now(), c.mirror.Revision()) {
		return nil
	}
	c.round++
	v := c.observer.observe(time.Now(), c.round)
	if c.surging.refresh(ctx, v) {
		v = c.observer.observe(v.now, c.round)
	}
	c.annotations.load(v)
	err := c.recovery.recoverMoves(ctx, v) // before anything is decided: budgets count what an earlier process began
	c.outcomes.pauseUndone(v)              // before moves are validated: a paused NodePool's are not valid
	paused := c.withdrawPaused(v)
	c.validate(ctx, v)
	err = errors.Join(err, c.advance(ctx, v))
	if !paused && c.decider.decide(ctx, v) {
		err = errors.Join(err, c.advance(ctx, v))
	}
	err = errors.Join(err, c.annotations.save(ctx, v), writeConditions(ctx, c.writer, v))
	c.idle = c.idleAfter(v, err)
	return err
}

// maxIdle bounds how long rounds are skipped in a cluster in which nothing happens.
const maxIdle = 5 * time.Second

// idle is until when a round would have the same result as the last one. The zero idle is over.
type idle struct {
	until    time.Time
	revision uint64 // of the mirror, as the last round saw it
}

func (i idle) holds(now time.Time, revision uint64) bool {
	return now.Before(i.until) && i.revision == revision
}

// idleAfter returns until when nothing changes by itself.
func (c *Controller) idleAfter(v *view, err error) idle {
	if err != nil || c.moves.len() > 0 || c.decider.search.running {
		return idle{}
	}
	until := c.decider.search.due(v.revision, v.now.Add(maxIdle))
	for i := range v.nodes {
		pool := v.pools[v.nodes[i].Pool]
		at, quiet := disrupt.Consolidatable(&v.nodes[i], &pool, v.now)
		if !quiet && at.After(v.now) && at.Before(until) {
			until = at
		}
	}
	return idle{until: until, revision: v.revision}
}
