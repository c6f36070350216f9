// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/karve-dev/karve/azureemulator"
)

// Options are how many VMs are evicted, and how.
type Options struct {
	Seed uint64
	// Nodes is how many spot VMs there are, Evicted how many of them go. Zero: 1,000 and 300.
	Nodes, Evicted int
	// Within is the time in which all evictions are announced. Zero: 20 s.
	Within time.Duration
	// ReadTakes is how long a read of Azure takes. Zero: 100 ms.
	ReadTakes time.Duration
	// Share is karve's of Azure's limits, as --arm-share. Zero: as out of the box.
	Share float64
	// SlowMetadata has VMs' metadata services take six seconds for every answer.
	SlowMetadata bool
}

// Result is how it went.
type Result struct {
	// Urgent is how many of the VMs Bought went before others.
	Evicted, Bought, Urgent int
	// Delays are between the announcement of an eviction and the request for the VM that
	// comes in its place, shortest first: of the n-th each.
	Delays []time.Duration
	// Shorted are the pods that got less than their grace and than what was left when the
	// eviction was announced, by more than Slack; Pods is how many there were.
	Shorted []string
	Pods    int
	// Throttled counts requests that Azure refused for coming too often.
	Throttled int
	// Up is how long it took to bring the cluster up.
	Up time.Duration
}

// Slack is what may be lost of a notice: a second until the agent asks again, one until
// the drain comes by, and one of rounding, as grace is in whole seconds.
const Slack = 3 * time.Second

// Quantile is the delay that a share q of all stays within.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.Delays) == 0 {
		return 0
	}
	return r.Delays[min(int(q*float64(len(r.Delays))), len(r.Delays)-1)]
}

func (r Result) String() string {
	return fmt.Sprintf("%d VMs evicted, %d launched (%d urgently); notice to request p50 %v, p99 %v, at most %v; %d of %d pods got too little; %d requests throttled; up in %v",
		r.Evicted, r.Bought, r.Urgent, r.Quantile(0.5), r.Quantile(0.99), r.Quantile(1), len(r.Shorted), r.Pods, r.Throttled, r.Up.Round(time.Second))
}

func (o Options) withDefaults() Options {
	if o.Nodes == 0 {
		o.Nodes = 1000
	}
	if o.Evicted == 0 {
		o.Evicted = o.Nodes * 3 / 10
	}
	if o.Within == 0 {
		o.Within = 20 * time.Second
	}
	if o.ReadTakes == 0 {
		o.ReadTakes = 100 * time.Millisecond
	}
	return o
}

// rest is how long the cluster stands still before: limits have recovered, and what was read
// of Azure is old.
const rest = 45 * time.Second

// settle is how long after the last notice everything is looked at: all VMs are gone.
const settle = time.Minute

// Run brings a cluster up, evicts its VMs, and returns what came of it.
func Run(t testing.TB, o Options) Result {
	t.Helper()
	o = o.withDefaults()
	random := rand.New(rand.NewPCG(o.Seed, 290))
	c := newCluster(t, o)
	defer c.stop()
	start := time.Now()
	for i := range o.Nodes {
		c.createPod(fmt.Sprintf("work-%d", i), graces[random.IntN(len(graces))], random.IntN(4) == 0)
	}
	c.await(30*time.Minute, "all pods run", func() bool { return c.runningPods() == o.Nodes })
	r := Result{Evicted: o.Evicted, Up: time.Since(start)}
	if o.SlowMetadata {
		if err := c.azure.Inject(azureemulator.NamedFault{Name: "MetadataSlow", Times: -1}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(rest)
	notices := c.evict(random, o)
	time.Sleep(settle)
	r.Delays = delays(notices, c.cloud.launchesSince(notices[0]))
	r.Bought, r.Pods = len(c.cloud.launchesSince(notices[0])), len(c.ends)
	r.Urgent = c.urgent()
	r.Shorted, r.Throttled = c.cutShort(), int(c.azure.Ledger().Throttled)
	return r
}

// graces are what pods ask for, in seconds.
var graces = []int64{0, 5, 10, 20, 27, 30, 60, 600}

// evict announces evictions of random VMs at random times, and returns when.
func (c *cluster) evict(random *rand.Rand, o Options) []time.Time {
	var names []string
	for _, vm := range c.azure.State().VMs {
		names = append(names, vm.Name)
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	after := make([]time.Duration, o.Evicted)
	for i := range after {
		after[i] = time.Duration(random.Int64N(int64(o.Within)))
	}
	slices.Sort(after)
	start, notices := time.Now(), []time.Time(nil)
	for i, d := range after {
		time.Sleep(time.Until(start.Add(d)))
		c.recordNotice(names[i])
		if err := c.azure.VMs.Evict(names[i], 0); err != nil {
			c.t.Fatal(err)
		}
		notices = append(notices, time.Now())
	}
	return notices
}

// delays pairs the n-th announcement with the n-th launch. Launches that were never made are left
// out.
func delays(notices, launches []time.Time) []time.Duration {
	var all []time.Duration
	for i := range min(len(notices), len(launches)) {
		all = append(all, launches[i].Sub(notices[i]))
	}
	slices.Sort(all)
	return all
}

// cutShort lists pods of evicted VMs whose grace period was cut short.
func (c *cluster) cutShort() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for pod, e := range c.ends {
		if got := e.graceGot(); got < min(e.grace, notice)-Slack {
			all = append(all, fmt.Sprintf("%s: grace %v, asked %v after the notice, had %v", pod, e.grace, e.asked.Sub(e.noticed), got))
		}
	}
	slices.SortFunc(all, strings.Compare)
	return all
}

// notice is what Azure leaves a spot VM.
const notice = 30 * time.Second
