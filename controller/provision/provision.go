// SPDX-License-Identifier: Apache-2.0

package provision

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube/state"
)

const (
	// retry is how often pods that fitted nowhere are tried again.
	retry = 10 * time.Second
	// unsynced is the pause before looking again while the mirror is not synced.
	unsynced = 200 * time.Millisecond
)

// Provisioner turns pods that need capacity into NodeClaims.
type Provisioner struct {
	Client client.Client
	// Live reads past the cache: whether a NodeClaim exists that no watch shows.
	Live    client.Reader
	Mirror  *state.Mirror
	Catalog *catalog.Keeper
	Batches *Batcher
	Events  *events.Recorder
	Metrics *metrics.Set
	Log     logr.Logger
	// Buffers records where the capacity for CapacityBuffers is; nil when they are not used.
	Buffers *buffer.Keeper
	// Guard limits creations of NodeClaims; nil limits none.
	Guard *guard.Guard

	// What was last logged about pods and catalog, so that it is logged once.
	waiting    int
	incomplete string
}

// Start provisions batch after batch until the context ends.
func (p *Provisioner) Start(ctx context.Context) error {
	for p.Batches.Wait(ctx, retry) {
		if err := p.Provision(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error(err, "provisioning failed in part")
		}
	}
	return nil
}

// Provision handles one batch: read, decide, act, record. Pods whose claim could not be created
// remain pending and are in the next batch again.
func (p *Provisioner) Provision(ctx context.Context) error {
	err := p.read(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	p.logIncomplete(err)
	plan, took := p.decide()
	err = p.act(ctx, plan)
	p.reporter().finished(plan, took)
	return errors.Join(err, p.Buffers.Report(ctx, plan))
}

func (p *Provisioner) read(ctx context.Context) error {
	for !p.Mirror.Synced() { // an incomplete Snapshot would launch nodes that exist already
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(unsynced):
		}
	}
	p.Mirror.DropLapsed()
	if err := (overdueClaims{p.Live, p.Mirror}).settle(ctx); err != nil {
		p.Log.Error(err, "nodeclaims that may exist keep their pods and their part of limits")
	}
	n := p.Mirror.CountWaiting()
	if n > 0 && n != p.waiting {
		p.Log.Info("found provisionable pod(s)", "pods", n)
	}
	p.waiting = n
	return p.Catalog.Refresh(ctx)
}

// logIncomplete logs what the catalog lacks when that changes: pods that fit nowhere cause a
// batch every few seconds.
func (p *Provisioner) logIncomplete(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != p.incomplete {
		p.Log.Error(err, "catalog incomplete, going on with the rest")
	}
	p.incomplete = text
}

func (p *Provisioner) decide() (plan schedule.Plan, took time.Duration) {
	p.Mirror.View(func(snapshot *cluster.Snapshot) {
		start := time.Now()
		plan = schedule.Solve(snapshot)
		took = time.Since(start)
	})
	p.reporter().decided(plan)
	return plan, took
}

// act nominates pods to nodes that exist or are in flight, and launches nodes for the others.
func (p *Provisioner) act(ctx context.Context, plan schedule.Plan) error {
	p.Buffers.Decided(plan.Nominations)
	for _, n := range plan.Nominations {
		if pods := p.Buffers.Real(n.Pods); len(pods) > 0 {
			p.Mirror.Nominate(n.Node, pods)
		}
	}
	return p.launcher().launchAll(ctx, plan.Launches)
}

func (p *Provisioner) launcher() *launcher {
	return &launcher{client: p.Client, mirror: p.Mirror, catalog: p.Catalog, batches: p.Batches, buffers: p.Buffers, guard: p.Guard, report: p.reporter()}
}

func (p *Provisioner) reporter() *reporter {
	return &reporter{mirror: p.Mirror, buffers: p.Buffers, events: p.Events, metrics: p.Metrics, log: p.Log}
}
