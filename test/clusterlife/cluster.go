// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
)

// Cluster is the true state of a simulated cluster, and the time in it.
type Cluster struct {
	clock
	rng     *rand.Rand
	decider Decider

	Pools     []*Pool
	Settings  disrupt.Settings
	catalog   *catalog
	machines  []*node // in the order in which they were ordered
	workloads []*workload
	pods      []*pod // alive, in the order in which they were made
	moves     []*move
	Checker   *Checker

	// Pace is how long things take; see Pace.
	Durations Durations

	mirror          *mirror
	podsCreated     int  // pods ever made
	nodesOrdered    int  // nodes ever ordered
	movesChosen     int  // moves ever chosen
	changesPending  bool // something happened that scheduler or controllers have not seen
	changes         int  // counts changes that a decision about nodes might see
	changesSearched int  // stir at the last search
	searchDue       bool // a search is due already
	lastSearch      time.Time
	wakeAt          time.Time // when a search is due because a reason lapses
	batchDue        bool      // a provisioning batch is due already
	backoff         map[string]time.Time
	failures        map[string]int // failed moves of a node in sequence
	recent          []*recentConsolidation
	pauses          map[*Pool]pause
	log             []string
	Stats           Stats
}

// Pace is how long things take.
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
	// Longest is how long an evicted pod's replacement waited for its node at most.
	LongestWait time.Duration
	// SoldOut counts launches that found no offering with capacity.
	NoCapacity int
	// Undone counts nodes launched for pods that a move displaced, because
	// kube-scheduler bound other pods to their nodes.
	Undone int
	// Lulls counts pauses of pools after that.
	Pauses int
}

// New returns an empty cluster at midnight. mind decides; nil means the engine.
func New(seed uint64, mind Decider, pools ...*Pool) *Cluster {
	if mind == nil {
		mind = Engine{}
	}
	c := &Cluster{
		clock: clock{now: start}, rng: rand.New(rand.NewPCG(seed, 0xd1)), decider: mind, Pools: pools, catalog: newCatalog(),
		backoff: map[string]time.Time{}, failures: map[string]int{}, pauses: map[*Pool]pause{}, Settings: disrupt.Settings{SpotToSpot: true},
		Durations: Durations{
			Batch: 2 * time.Second, SearchInterval: 10 * time.Second, Validation: 15 * time.Second,
			Boot: [2]time.Duration{40 * time.Second, 100 * time.Second}, InstanceDeletion: 20 * time.Second, RegistrationTimeout: 15 * time.Minute,
		},
		Stats: Stats{ByCause: map[disrupt.Cause]int{}},
	}
	c.mirror = newMirror(c)
	c.Checker = newChecker(c)
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

// settle lets controllers and the scheduler see the changes, until nothing is new to them.
func (c *Cluster) runControllers() {
	for c.changesPending {
		c.changesPending = false
		for _, w := range c.workloads {
			w.reconcile(c)
		}
		c.schedule()
		c.progressMoves()
	}
	c.scheduleDecisions()
}

// changed records that something happened.
func (c *Cluster) changed() {
	c.changesPending = true
	c.changes++
}

// note writes into the diary, which failures print the end of.
func (c *Cluster) logf(format string, args ...any) {
	c.log = append(c.log, c.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
	if len(c.log) > 4000 {
		c.log = slices.Clone(c.log[2000:])
	}
}

// machine is a node with its NodeClaim.
type node struct {
	key     string
	pool    *Pool
	version int // of the pool when it was ordered
	// choices are the offerings that may be launched, best first; deal is the launched one, once
	// it is known.
	acceptable []offering.Ref
	offering   offeringKey
	milli      int64 // allocatable, DaemonSet off
	mib        int64

	created        time.Time
	initialized    time.Time // zero while it is not
	notReady       bool
	deleting       bool // its claim was deleted
	terminating    bool // the instance itself is being deleted
	gone           bool
	tainted        bool // karpenter.sh/disrupted
	doNotDisrupt   bool // a person wrote do-not-disrupt on it
	stuckFinalizer bool // some finalizer is never removed

	lastPod        time.Time // a pod was bound or deleted
	pods           []*pod    // bound here, terminating ones included
	move           *move     // the move that disrupts it
	deadline       time.Time // when its grace ends; zero for never
	replacementFor *move     // the move that launched it
}

func (m *node) ready() bool {
	return !m.initialized.IsZero() && !m.notReady && !m.gone && !m.terminating
}

// open reports whether the scheduler may use it.
func (m *node) schedulable() bool { return m.ready() && !m.tainted && !m.deleting }

// quiet is since when nothing happened on it.
func (m *node) quietSince() time.Time {
	if m.lastPod.After(m.initialized) {
		return m.lastPod
	}
	return m.initialized
}

// free is the node's free capacity.
func (m *node) free() (milli, mib int64, pods int) {
	milli, mib, pods = m.milli, m.mib, maxPods-1-len(m.pods)
	for _, p := range m.pods {
		milli, mib = milli-p.owner.Milli, mib-p.owner.MiB
	}
	return milli, mib, pods
}

// busy reports whether pods run there that would need another node.
func (m *node) hasPods() bool { return len(m.pods) > 0 }

// order creates a node, which joins, or does not, in its own time.
func (c *Cluster) orderNode(pool string, choices []offering.Ref) *node {
	c.nodesOrdered++
	m := &node{key: fmt.Sprintf("%s-%04d", pool, c.nodesOrdered), pool: c.pool(pool), created: c.now}
	m.acceptable = offering.RotateZones(choices, m.key)
	m.version = m.pool.Version
	c.machines = append(c.machines, m)
	c.Stats.Launches++
	c.logf("order %s %v of %d", m.key, m.acceptable[0], len(choices))
	c.changed()
	c.after(3*time.Second, func() { c.launchInstance(m) })
	return m
}

func (c *Cluster) pool(name string) *Pool {
	return c.Pools[slices.IndexFunc(c.Pools, func(p *Pool) bool { return p.Name == name })]
}

// buy launches the first offering that has capacity, and gives up when none has. Offerings found
// without capacity are marked so for a while, as the provider does.
func (c *Cluster) launchInstance(m *node) {
	if m.gone {
		return
	}
	for _, choice := range m.acceptable {
		d := offeringKey{choice.Type, choice.Zone, choice.CapacityType}
		if c.catalog.unavailable[d] {
			continue
		}
		if c.catalog.launchFails[d] {
			c.SetUnavailable(d, true)
			c.after(3*time.Minute, func() { c.SetUnavailable(d, false) })
			continue
		}
		s := c.catalog.sizeOf[d.instanceType]
		m.offering, m.milli, m.mib = d, s.cores*1000-systemMilli-daemonMilli, s.gib*1024-systemMiB-daemonMiB
		boot := c.Durations.Boot[0] + time.Duration(c.rng.Int64N(int64(c.Durations.Boot[1]-c.Durations.Boot[0]+1)))
		c.after(boot, func() { c.initialize(m) })
		c.changed()
		c.Checker.nodeLaunched(m)
		return
	}
	c.logf("sold out %s", m.key)
	c.Stats.NoCapacity++
	c.removeNode(m)
}

func (c *Cluster) initialize(m *node) {
	if m.gone || m.deleting {
		return
	}
	if c.catalog.neverRegisters[m.offering] {
		c.after(c.Durations.RegistrationTimeout, func() { c.removeNode(m) })
		return
	}
	m.initialized = c.now
	if life := m.pool.ExpireAfter; life > 0 {
		c.after(m.created.Add(life).Sub(c.now), func() { c.Checker.outsideChange(); c.changed() })
	}
	c.logf("ready %s %v", m.key, m.offering)
	c.changed()
}

// remove ends a node: its pods are lost to their owners.
func (c *Cluster) removeNode(m *node) {
	if m.gone {
		return
	}
	m.gone = true
	for _, p := range slices.Clone(m.pods) {
		c.removePod(p)
	}
	c.mirror.removeNode(m)
	c.machines = slices.DeleteFunc(c.machines, func(o *node) bool { return o == m })
	c.logf("gone %s", m.key)
	c.changed()
}

// cost is the current price of all nodes per hour.
func (c *Cluster) cost() offering.Price {
	var sum offering.Price
	for _, m := range c.machines {
		if m.offering.instanceType != "" {
			sum += c.catalog.price(m.offering)
		}
	}
	return sum
}

// node returns the node as the engine's Snapshot has it.
func (c *Cluster) snapshotNode(m *node) cluster.Node {
	first := offeringKey{m.acceptable[0].Type, m.acceptable[0].Zone, m.acceptable[0].CapacityType}
	if m.offering.instanceType != "" {
		first = m.offering
	}
	s := c.catalog.sizeOf[first.instanceType]
	n := cluster.Node{
		Key: m.key, Name: m.key, Pool: m.pool.Name, Taints: m.pool.taints(), HasNodeClaim: true, Created: m.created,
		Capacity: resources(s.cores*1000, s.gib*1024, maxPods), Allocatable: resources(s.cores*1000-systemMilli, s.gib*1024-systemMiB, maxPods),
		Price: c.catalog.price(first), Initialized: !m.initialized.IsZero(),
		MarkedForDeletion: m.deleting || m.podsNominatedElsewhere() || m.terminating,
		Labels: map[string]string{
			cluster.LabelNodePool: m.pool.Name, cluster.LabelInstanceType: first.instanceType, cluster.LabelZone: first.zone, cluster.LabelCapacityType: first.capacityType,
			"pool": m.pool.Name, "family": first.instanceType[:1],
		},
	}
	if n.Initialized {
		n.Labels[cluster.LabelHostname] = m.key
	}
	if m.notReady {
		n.Taints = append(n.Taints, cluster.Taint{Key: "node.kubernetes.io/not-ready", Effect: cluster.NoSchedule})
	}
	if m.tainted {
		n.Taints = append(n.Taints, cluster.Taint{Key: "karpenter.sh/disrupted", Effect: cluster.NoSchedule})
	}
	if m.offering.instanceType == "" {
		for _, choice := range m.acceptable {
			o := c.catalog.sizeOf[choice.Type]
			for name, v := range resources(o.cores*1000, o.gib*1024, maxPods) {
				n.Capacity[name] = max(n.Capacity[name], v)
			}
			for name, v := range resources(o.cores*1000-systemMilli, o.gib*1024-systemMiB, maxPods) {
				n.Allocatable[name] = min(n.Allocatable[name], v)
			}
		}
	}
	n.TakesNoPods = !n.Initialized && c.now.Sub(m.created) > c.Durations.RegistrationTimeout
	return n
}

// departing reports whether the node's pods are nominated to other nodes already.
func (m *node) podsNominatedElsewhere() bool { return m.move != nil && m.move.stage >= launched }
