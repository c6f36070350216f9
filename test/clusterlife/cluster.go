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
	rng  *rand.Rand
	mind Mind

	Pools     []*Pool
	Settings  disrupt.Settings
	market    *market
	machines  []*machine // in the order in which they were ordered
	workloads []*workload
	pods      []*pod // alive, in the order in which they were made
	moves     []*move
	Watch     *Watch

	// Pace is how long things take; see Pace.
	Pace Pace

	view      *view
	born      int  // pods ever made
	ordered   int  // nodes ever ordered
	moved     int  // moves ever chosen
	unsettled bool // something happened that scheduler or controllers have not seen
	stir      int  // counts changes that a decision about nodes might see
	seen      int  // stir at the last search
	searching bool // a search is due already
	searched  time.Time
	woken     time.Time // when a search is due because a reason lapses
	providing bool      // a provisioning batch is due already
	resting   map[string]time.Time
	failed    map[string]int // failed moves of a node in sequence
	unproved  []*unproved
	lulls     map[*Pool]lull
	diary     []string
	Stats     Stats
}

// Pace is how long things take.
type Pace struct {
	Batch      time.Duration // pods wait that long for others before a launch
	Search     time.Duration // between two looks at the nodes
	Validation time.Duration // between choosing a move and looking again
	Boot       [2]time.Duration
	Gone       time.Duration // of an instance, once drained
	GiveUp     time.Duration // on an instance that never initializes
}

// Stats count events.
type Stats struct {
	Purchases, Moves, Rejected, Failed, Evictions, Searches, Solves int
	// ByCause counts the nodes that went, by cause.
	ByCause map[disrupt.Cause]int
	// Longest is how long an evicted pod's replacement waited for its node at most.
	Longest time.Duration
	// SoldOut counts launches that found no offering with capacity.
	SoldOut int
	// Undone counts nodes launched for pods that a move displaced, because
	// kube-scheduler bound other pods to their nodes.
	Undone int
	// Lulls counts pauses of pools after that.
	Lulls int
}

// New returns an empty cluster at midnight. mind decides; nil means the engine.
func New(seed uint64, mind Mind, pools ...*Pool) *Cluster {
	if mind == nil {
		mind = Engine{}
	}
	c := &Cluster{
		clock: clock{now: dawn}, rng: rand.New(rand.NewPCG(seed, 0xd1)), mind: mind, Pools: pools, market: newMarket(),
		resting: map[string]time.Time{}, failed: map[string]int{}, lulls: map[*Pool]lull{}, Settings: disrupt.Settings{SpotToSpot: true},
		Pace: Pace{
			Batch: 2 * time.Second, Search: 10 * time.Second, Validation: 15 * time.Second,
			Boot: [2]time.Duration{40 * time.Second, 100 * time.Second}, Gone: 20 * time.Second, GiveUp: 15 * time.Minute,
		},
		Stats: Stats{ByCause: map[disrupt.Cause]int{}},
	}
	c.view = newView(c)
	c.Watch = newWatch(c)
	return c
}

// Live runs the cluster for a time.
func (c *Cluster) Live(d time.Duration) {
	end := c.now.Add(d)
	c.settle() // the caller may have changed something
	for c.instant(end) {
		c.settle()
		c.Watch.look()
	}
	c.now = end
}

// settle lets controllers and the scheduler see the changes, until nothing is new to them.
func (c *Cluster) settle() {
	for c.unsettled {
		c.unsettled = false
		for _, w := range c.workloads {
			w.reconcile(c)
		}
		c.schedule()
		c.progress()
	}
	c.plan()
}

// changed records that something happened.
func (c *Cluster) changed() {
	c.unsettled = true
	c.stir++
}

// note writes into the diary, which failures print the end of.
func (c *Cluster) note(format string, args ...any) {
	c.diary = append(c.diary, c.now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
	if len(c.diary) > 4000 {
		c.diary = slices.Clone(c.diary[2000:])
	}
}

// machine is a node with its NodeClaim.
type machine struct {
	key     string
	pool    *Pool
	version int // of the pool when it was ordered
	// choices are the offerings that may be launched, best first; deal is the launched one, once
	// it is known.
	choices []offering.Ref
	deal    deal
	milli   int64 // allocatable, DaemonSet off
	mib     int64

	created     time.Time
	initialized time.Time // zero while it is not
	notReady    bool
	deleting    bool // its claim was deleted
	terminating bool // the instance itself is being deleted
	gone        bool
	tainted     bool // karpenter.sh/disrupted
	stays       bool // a person wrote do-not-disrupt on it
	hangs       bool // some finalizer is never removed

	lastPod  time.Time // a pod was bound or deleted
	pods     []*pod    // bound here, terminating ones included
	move     *move     // the move that disrupts it
	deadline time.Time // when its grace ends; zero for never
	serves   *move     // the move that launched it
}

func (m *machine) ready() bool {
	return !m.initialized.IsZero() && !m.notReady && !m.gone && !m.terminating
}

// open reports whether the scheduler may use it.
func (m *machine) open() bool { return m.ready() && !m.tainted && !m.deleting }

// quiet is since when nothing happened on it.
func (m *machine) quiet() time.Time {
	if m.lastPod.After(m.initialized) {
		return m.lastPod
	}
	return m.initialized
}

// free is the node's free capacity.
func (m *machine) free() (milli, mib int64, pods int) {
	milli, mib, pods = m.milli, m.mib, maxPods-1-len(m.pods)
	for _, p := range m.pods {
		milli, mib = milli-p.owner.Milli, mib-p.owner.MiB
	}
	return milli, mib, pods
}

// busy reports whether pods run there that would need another node.
func (m *machine) busy() bool { return len(m.pods) > 0 }

// order creates a node, which joins, or does not, in its own time.
func (c *Cluster) order(pool string, choices []offering.Ref) *machine {
	c.ordered++
	m := &machine{key: fmt.Sprintf("%s-%04d", pool, c.ordered), pool: c.pool(pool), created: c.now}
	m.choices = offering.RotateZones(choices, m.key)
	m.version = m.pool.Version
	c.machines = append(c.machines, m)
	c.Stats.Purchases++
	c.note("order %s %v of %d", m.key, m.choices[0], len(choices))
	c.changed()
	c.after(3*time.Second, func() { c.buy(m) })
	return m
}

func (c *Cluster) pool(name string) *Pool {
	return c.Pools[slices.IndexFunc(c.Pools, func(p *Pool) bool { return p.Name == name })]
}

// buy launches the first offering that has capacity, and gives up when none has. Offerings found
// without capacity are marked so for a while, as the provider does.
func (c *Cluster) buy(m *machine) {
	if m.gone {
		return
	}
	for _, choice := range m.choices {
		d := deal{choice.Type, choice.Zone, choice.CapacityType}
		if c.market.soldOut[d] {
			continue
		}
		if c.market.failing[d] {
			c.SoldOut(d, true)
			c.after(3*time.Minute, func() { c.SoldOut(d, false) })
			continue
		}
		s := c.market.bySize[d.typ]
		m.deal, m.milli, m.mib = d, s.cores*1000-systemMilli-daemonMilli, s.gib*1024-systemMiB-daemonMiB
		boot := c.Pace.Boot[0] + time.Duration(c.rng.Int64N(int64(c.Pace.Boot[1]-c.Pace.Boot[0]+1)))
		c.after(boot, func() { c.initialize(m) })
		c.changed()
		c.Watch.bought(m)
		return
	}
	c.note("sold out %s", m.key)
	c.Stats.SoldOut++
	c.remove(m)
}

func (c *Cluster) initialize(m *machine) {
	if m.gone || m.deleting {
		return
	}
	if c.market.silent[m.deal] {
		c.after(c.Pace.GiveUp, func() { c.remove(m) })
		return
	}
	m.initialized = c.now
	if life := m.pool.ExpireAfter; life > 0 {
		c.after(m.created.Add(life).Sub(c.now), func() { c.Watch.happened(); c.changed() })
	}
	c.note("ready %s %v", m.key, m.deal)
	c.changed()
}

// remove ends a node: its pods are lost to their owners.
func (c *Cluster) remove(m *machine) {
	if m.gone {
		return
	}
	m.gone = true
	for _, p := range slices.Clone(m.pods) {
		c.kill(p)
	}
	c.view.forget(m)
	c.machines = slices.DeleteFunc(c.machines, func(o *machine) bool { return o == m })
	c.note("gone %s", m.key)
	c.changed()
}

// cost is the current price of all nodes per hour.
func (c *Cluster) cost() offering.Price {
	var sum offering.Price
	for _, m := range c.machines {
		if m.deal.typ != "" {
			sum += c.market.price(m.deal)
		}
	}
	return sum
}

// node returns the node as the engine's Snapshot has it.
func (c *Cluster) node(m *machine) cluster.Node {
	first := deal{m.choices[0].Type, m.choices[0].Zone, m.choices[0].CapacityType}
	if m.deal.typ != "" {
		first = m.deal
	}
	s := c.market.bySize[first.typ]
	n := cluster.Node{
		Key: m.key, Name: m.key, Pool: m.pool.Name, Taints: m.pool.taints(), Claim: true, Created: m.created,
		Capacity: amounts(s.cores*1000, s.gib*1024, maxPods), Allocatable: amounts(s.cores*1000-systemMilli, s.gib*1024-systemMiB, maxPods),
		Price: c.market.price(first), Initialized: !m.initialized.IsZero(),
		Leaving: m.deleting || m.departing() || m.terminating,
		Labels: map[string]string{
			cluster.LabelPool: m.pool.Name, cluster.LabelInstanceType: first.typ, cluster.LabelZone: first.zone, cluster.LabelCapacityType: first.capacity,
			"pool": m.pool.Name, "family": first.typ[:1],
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
	if m.deal.typ == "" {
		for _, choice := range m.choices {
			o := c.market.bySize[choice.Type]
			for name, v := range amounts(o.cores*1000, o.gib*1024, maxPods) {
				n.Capacity[name] = max(n.Capacity[name], v)
			}
			for name, v := range amounts(o.cores*1000-systemMilli, o.gib*1024-systemMiB, maxPods) {
				n.Allocatable[name] = min(n.Allocatable[name], v)
			}
		}
	}
	n.Unschedulable = !n.Initialized && c.now.Sub(m.created) > c.Pace.GiveUp
	return n
}

// departing reports whether the node's pods are nominated to other nodes already.
func (m *machine) departing() bool { return m.move != nil && m.move.stage >= launched }
