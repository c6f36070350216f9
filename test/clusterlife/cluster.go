// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
)

// Cluster is the true state of a simulated cluster, and the time in it. Its parts are the
// controllers that change it.
type Cluster struct {
	clock
	rng       *rand.Rand
	decider   Decider
	Settings  disrupt.Settings
	Durations Durations

	Pools       []*Pool
	catalog     *catalog
	nodes       *nodes
	workloads   *workloads
	scheduler   *scheduler
	provisioner *provisioner
	disruption  *disruption
	undone      *undoneHistory
	mirror      *mirror
	Checker     *Checker

	changesPending bool // something happened that scheduler or controllers have not seen
	changes        int  // counts changes that a decision about nodes might see
	log            []string
	Stats          Stats
}

// Durations are how long things take.
type Durations struct {
	Batch               time.Duration // pods wait that long for others before a launch
	SearchInterval      time.Duration // between two looks at the nodes
	Validation          time.Duration // between choosing a move and looking again
	Boot                [2]time.Duration
	InstanceDeletion    time.Duration // of an instance, once drained
	RegistrationTimeout time.Duration // on an instance that never initializes
}

// Stats count events.
type Stats struct {
	Launches, Moves, Rejected, Failed, Evictions, Searches, Solves int
	// ByCause counts the nodes that went, by cause.
	ByCause map[disrupt.Cause]int
	// LongestWait is how long an evicted pod's replacement waited for its node at most.
	LongestWait time.Duration
	// NoCapacity counts launches that found no offering with capacity.
	NoCapacity int
	// Undone counts nodes launched for pods that a move displaced, because
	// kube-scheduler bound other pods to their nodes.
	Undone int
	// Pauses counts pauses of pools after that.
	Pauses int
}

// New returns an empty cluster at midnight. A nil decider means the engine.
func New(seed uint64, decider Decider, pools ...*Pool) *Cluster {
	if decider == nil {
		decider = Engine{}
	}
	c := &Cluster{
		clock: clock{now: start}, rng: rand.New(rand.NewPCG(seed, 0xd1)), decider: decider, Settings: disrupt.Settings{SpotToSpot: true},
		Pools: pools, catalog: newCatalog(),
		Durations: Durations{
			Batch: 2 * time.Second, SearchInterval: 10 * time.Second, Validation: 15 * time.Second,
			Boot: [2]time.Duration{40 * time.Second, 100 * time.Second}, InstanceDeletion: 20 * time.Second, RegistrationTimeout: 15 * time.Minute,
		},
		Stats: Stats{ByCause: map[disrupt.Cause]int{}},
	}
	c.nodes, c.workloads = &nodes{c: c}, &workloads{c: c}
	c.scheduler = &scheduler{c.nodes, c.workloads}
	c.provisioner, c.disruption, c.undone = &provisioner{c: c}, newDisruption(c), &undoneHistory{c: c, pauses: map[*Pool]pause{}}
	c.mirror, c.Checker = newMirror(c), newChecker(c)
	return c
}

// Live runs the cluster for a time.
func (c *Cluster) Live(d time.Duration) {
	end := c.now.Add(d)
	c.runControllers() // the caller may have changed something
	for c.runNext(end) {
		c.runControllers()
		c.Checker.checkInstant()
	}
	c.now = end
}

// runControllers lets controllers and the scheduler see the changes, until nothing is new to them.
func (c *Cluster) runControllers() {
	for c.changesPending {
		c.changesPending = false
		for _, w := range c.workloads.list {
			c.workloads.reconcile(w)
		}
		c.scheduler.run()
		c.disruption.progress()
	}
	c.provisioner.schedule()
	c.disruption.schedule()
}

// changed records that something happened.
func (c *Cluster) changed() {
	c.changesPending = true
	c.changes++
}

// logf adds a line to the log, of which failures print the end.
func (c *Cluster) logf(format string, args ...any) {
	c.log = append(c.log, c.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
	if len(c.log) > 4000 {
		c.log = slices.Clone(c.log[2000:])
	}
}

func (c *Cluster) pool(name string) *Pool {
	return c.Pools[slices.IndexFunc(c.Pools, func(p *Pool) bool { return p.Name == name })]
}

// describe lists the requests of pods, for the log.
func (c *Cluster) describe(refs []cluster.PodRef) string {
	var out []string
	for _, ref := range refs {
		if p := c.workloads.find(ref.UID); p != nil {
			w := p.owner
			out = append(out, fmt.Sprintf("%s(%dm %dMi pool=%q on-demand=%v spread=%v apart=%v)", p.uid, w.Milli, w.MiB, w.Placement.Pool, w.Placement.OnDemand, w.Placement.Spread, w.Placement.OnePerNode))
		}
	}
	return strings.Join(out, " ")
}
