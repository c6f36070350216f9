// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// Score says how good a plan for a script is. Compare says which is better:
//
//  1. more pods placed, of the highest priority first, virtual pods last;
//  2. fewer pods on new nodes of pools with a low weight, the lowest first: such pools serve only
//     pods that pools with a higher weight cannot;
//  3. a lower price of the launches, each at its first offering.
type Score struct {
	Placed []int // by priority, highest first; virtual pods in the last entry
	Light  []int // pods on new nodes by pool weight, lowest first
	Price  offering.Price
}

// Compare is negative when s is better than o.
func (s Score) Compare(o Score) int {
	return cmp.Or(-slices.Compare(s.Placed, o.Placed), slices.Compare(s.Light, o.Light), cmp.Compare(s.Price, o.Price))
}

// ScoreOf scores a plan.
func ScoreOf(s *Script, p schedule.Plan) Score {
	k := newRanks(s)
	out := k.zero()
	byUID := map[string]*cluster.Pod{}
	for i := range s.Pods {
		byUID[s.Pods[i].UID] = &s.Pods[i]
	}
	for _, n := range p.Nominations {
		for _, ref := range n.Pods {
			out.Placed[k.priority(byUID[ref.UID])]++
		}
	}
	for _, l := range p.Launches {
		pool := s.Pools[slices.IndexFunc(s.Pools, func(p cluster.NodePool) bool { return p.Name == l.Pool })]
		for _, ref := range l.Pods {
			out.Placed[k.priority(byUID[ref.UID])]++
			out.light(k.weight(pool.Weight), 1)
		}
	}
	out.Price = p.Price()
	return out
}

// ranks are the priorities and weights that occur.
type ranks struct{ priorities, weights []int32 }

func newRanks(s *Script) ranks {
	var k ranks
	for _, p := range s.Pods {
		k.priorities = append(k.priorities, -p.Priority)
	}
	for _, p := range s.Pools {
		k.weights = append(k.weights, p.Weight)
	}
	slices.Sort(k.priorities)
	slices.Sort(k.weights)
	k.priorities, k.weights = slices.Compact(k.priorities), slices.Compact(k.weights)
	return k
}

func (k ranks) zero() Score {
	return Score{Placed: make([]int, len(k.priorities)+1), Light: make([]int, max(0, len(k.weights)-1))}
}

func (k ranks) priority(p *cluster.Pod) int {
	if p.Virtual {
		return len(k.priorities)
	}
	return slices.Index(k.priorities, -p.Priority)
}

// weight is the rank of a pool weight. Score.Light has no entry for the highest: only the price
// decides between these pools and existing nodes.
func (k ranks) weight(w int32) int { return slices.Index(k.weights, w) }

// MaxSteps bounds the oracle's search; scripts that need more are too large for it.
const MaxSteps = 200_000

// BestScore tries every way to place a script's pending pods, by the rules of Check, and returns the
// best score. It reports false when that takes more than MaxSteps.
//
// For pods that spread it counts domains as a launch must: domains that some offering could open
// for the pod exist with no pods yet, and one more node can always be launched.
func BestScore(s *Script) (Score, bool) {
	o := newOracle(s)
	o.search(o.cluster.bound)
	return o.best, o.steps < MaxSteps
}

type oracle struct {
	*Script
	ranks
	cluster *refCluster
	rows    []row
	hosts   int // places[:hosts] exist
	score   Score
	best    Score
	found   bool
	steps   int
	left    []quantity.Amounts // of limits, by pool
	quotas  map[string]int64
	topo    bool
	later   [][]int // later[i]: pods from i on that fit somewhere, by priority rank
	cpu     []int64 // cpu[i]: what those request
	twin    []bool  // twin[i]: pod i is exactly like the one before it
	perCPU  float64 // the lowest price of a milli-core of any offering
}

// row is one offering of one pool that can be launched, with one value for every label.
type row struct {
	place
	pool      int
	price     offering.Price
	size      quantity.Amounts
	quotaUses []offering.QuotaUse
}

func newOracle(s *Script) *oracle {
	leaving := map[string]bool{}
	for _, n := range s.Nodes {
		leaving[n.Name] = n.Leaving
	}
	pods, bound := s.inOrder(func(p cluster.Pod) bool { return p.Node == "" || leaving[p.Node] && p.Movable })
	o := &oracle{Script: s, ranks: newRanks(s), quotas: maps.Clone(s.Quotas)}
	slices.SortStableFunc(pods[bound:], func(a, b *cluster.Pod) int {
		return cmp.Or(cmp.Compare(o.priority(a), o.priority(b)), -cmp.Compare(a.Requests[quantity.NameCPU], b.Requests[quantity.NameCPU]))
	})
	o.cluster = newCluster(s, pods, bound)
	s.addNodes(o.cluster)
	o.hosts = len(o.cluster.places)
	o.score, o.best = o.zero(), o.zero()
	o.account()
	for i := range s.Pools {
		o.rowsOf(i)
	}
	slices.SortStableFunc(o.rows, func(a, b row) int { return cmp.Compare(a.price, b.price) })
	o.rows = o.worthTrying()
	o.lookAhead()
	for i := range pods {
		o.topo = o.topo || o.cluster.hasNear[i] || len(o.cluster.spreads[i])+len(o.cluster.anti[i]) > 0
	}
	memo := map[string][]string{}
	o.cluster.frontier = &frontier{func(pod int, key string) []string {
		id := fmt.Sprint(pod, " ", key)
		if _, ok := memo[id]; !ok {
			memo[id] = o.buyable(pod, key)
		}
		return memo[id]
	}}
	return o
}

// lookAhead prepares what hopeless needs: which pods fit somewhere, and what nodes for them must
// cost.
func (o *oracle) lookAhead() {
	pods, bound := o.cluster.pods, o.cluster.bound
	o.later, o.cpu, o.twin = make([][]int, len(pods)+1), make([]int64, len(pods)+1), make([]bool, len(pods))
	o.later[len(pods)] = make([]int, len(o.score.Placed))
	for i := len(pods) - 1; i >= bound; i-- {
		o.later[i], o.cpu[i] = slices.Clone(o.later[i+1]), o.cpu[i+1]
		if o.homeFor(i) {
			o.later[i][o.priority(pods[i])]++
			o.cpu[i] += pods[i].Requests[quantity.NameCPU]
		}
		o.twin[i] = i > bound && alike(*pods[i-1], *pods[i])
	}
	o.perCPU = math.Inf(1)
	for _, r := range o.rows {
		if n := r.room[quantity.NameCPU]; n > 0 {
			o.perCPU = min(o.perCPU, float64(r.price)/float64(n))
		}
	}
}

func (o *oracle) homeFor(i int) bool {
	if o.cluster.pods[i].Refused != "" {
		return false
	}
	for at := range o.cluster.places {
		p := &o.cluster.places[at]
		if !p.closed && o.suits(i, p) {
			return true
		}
	}
	return slices.ContainsFunc(o.rows, func(r row) bool { return o.suits(i, &r.place) })
}

// alike reports whether two pods can trade places without any effect.
func alike(a, b cluster.Pod) bool {
	for _, p := range []*cluster.Pod{&a, &b} {
		p.PodRef, p.Created, p.Node = cluster.PodRef{Namespace: p.Namespace}, time.Time{}, ""
		p.Volumes = slices.Clone(p.Volumes)
		for i := range p.Volumes {
			if !p.Volumes[i].Shared {
				p.Volumes[i].ID = ""
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

// worthTrying lists rows, without those that no pod can distinguish from a cheaper one.
func (o *oracle) worthTrying() []row {
	keys := map[string]bool{}
	for _, p := range o.cluster.pods {
		for _, sp := range p.Spreads {
			keys[sp.Key] = true
		}
		for _, t := range slices.Concat(p.Affinity, p.AntiAffinity) {
			keys[t.Key] = true
		}
	}
	delete(keys, cluster.LabelHostname)
	topology := slices.Sorted(maps.Keys(keys))
	seen := map[string]bool{}
	return slices.DeleteFunc(o.rows, func(r row) bool {
		id := fmt.Sprint(r.pool, r.room, r.size, r.quotaUses, r.attach, domains(r.place, topology))
		for i := o.cluster.bound; i < len(o.cluster.pods); i++ {
			p := o.cluster.pods[i]
			id += fmt.Sprint(meets(p.Required, p.AnyOf, r.labels))
			for _, v := range p.Volumes {
				id += fmt.Sprint(meets(nil, v.AnyOf, r.labels))
			}
		}
		again := seen[id]
		seen[id] = true
		return again
	})
}

// account subtracts existing nodes from limits and quotas.
func (o *oracle) account() {
	for _, p := range o.Pools {
		left := maps.Clone(p.Limits)
		for _, n := range o.Nodes {
			if n.Pool != p.Name {
				continue
			}
			for name := range left {
				if name == quantity.NameNodes {
					left[name]--
				} else {
					left[name] -= n.Capacity[name]
				}
			}
		}
		o.left = append(o.left, left)
	}
	for _, n := range o.Nodes {
		for _, d := range n.QuotaUses {
			if _, ok := o.quotas[d.Quota]; ok {
				o.quotas[d.Quota] -= d.Amount
			}
		}
	}
}

func (o *oracle) rowsOf(pool int) {
	p := o.Pools[pool]
	if p.Static || p.Blocked != "" {
		return
	}
	for _, t := range o.Types {
		for _, of := range t.Offerings {
			if of.Unavailable != "" {
				continue
			}
			labels := o.labelsOf(t, of, p)
			for key, values := range o.own(p) {
				labels[key] = values
			}
			o.settle(labels, func(settled map[string][]string) {
				for _, r := range p.Requirements {
					if !satisfies(r, settled[r.Key]) {
						return
					}
				}
				o.rows = append(o.rows, row{place: o.asPlace(t, p, settled), pool: pool, price: of.Price, size: t.Capacity, quotaUses: of.QuotaUses})
			})
		}
	}
}

// own are the values worth trying for labels that only the pool gives its nodes: the values that
// rules mention, one that no rule mentions, and no label.
func (o *oracle) own(p cluster.NodePool) map[string][]string {
	out := map[string][]string{}
	for _, r := range p.Requirements {
		if _, fixed := p.Labels[r.Key]; fixed || o.carried(r.Key) {
			continue
		}
		tried := []string{}
		for _, v := range append(o.mentioned(r.Key), "-1", "0", "3", "9", "fresh", absent) {
			values := []string{v}
			if v == absent {
				values = nil
			}
			allowed := !slices.ContainsFunc(p.Requirements, func(q constraint.Rule) bool { return q.Key == r.Key && !satisfies(q, values) })
			if allowed && !slices.Contains(tried, v) {
				tried = append(tried, v)
			}
		}
		out[r.Key] = tried
	}
	return out
}

// absent stands for a missing label while labels are settled.
const absent = "\x00"

func (o *oracle) carried(key string) bool {
	return slices.ContainsFunc(o.Types, func(t offering.InstanceType) bool {
		return len(t.Labels[key]) > 0 || slices.ContainsFunc(t.Offerings, func(of offering.Offering) bool { return len(of.Labels[key]) > 0 }) ||
			key == cluster.LabelZone || key == cluster.LabelCapacityType || key == cluster.LabelInstanceType || key == cluster.LabelHostname || key == cluster.LabelPool
	})
}

// mentioned are the values that rules of pods, DaemonSets or pools name.
func (o *oracle) mentioned(key string) []string {
	var out []string
	note := func(terms ...cluster.Term) {
		for _, r := range slices.Concat(terms...) {
			if r.Key == key {
				out = append(out, r.Values...)
			}
		}
	}
	for _, p := range o.Pods {
		note(p.Required)
		note(p.AnyOf...)
	}
	for _, d := range o.Daemons {
		note(d.Required)
		note(d.AnyOf...)
	}
	for _, p := range o.Pools {
		note(p.Requirements)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// settle yields every way to give each label one value.
func (o *oracle) settle(labels map[string][]string, yield func(map[string][]string)) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if len(labels[k]) < 2 && !slices.Contains(labels[k], absent) {
			continue
		}
		for _, v := range labels[k] {
			one := maps.Clone(labels)
			one[k] = []string{v}
			if v == absent {
				delete(one, k)
			}
			o.settle(one, yield)
		}
		return
	}
	yield(maps.Clone(labels))
}

// buyable are the domains that launching an offering could open for a pod. A new hostname is
// always possible.
func (o *oracle) buyable(pod int, key string) []string {
	if key == cluster.LabelHostname {
		return []string{"one more"}
	}
	var out []string
	for _, r := range o.rows {
		if v, ok := r.value(key); ok && !slices.Contains(out, v) && o.suits(pod, &r.place) {
			out = append(out, v)
		}
	}
	return out
}

func (o *oracle) suits(pod int, r *place) bool {
	p := o.cluster.pods[pod]
	if _, ok := cluster.Tolerates(p.Tolerations, r.taints); !ok || !meets(p.Required, p.AnyOf, r.labels) {
		return false
	}
	for name, n := range p.Requests {
		if n > max(0, r.room[name]) {
			return false
		}
	}
	_, taken := clashing(p.Ports, r.ports)
	return !taken
}

// search places pod i in every way, then the pods after it.
func (o *oracle) search(i int) {
	if o.steps++; o.steps >= MaxSteps || o.hopeless(i) {
		return
	}
	c := o.cluster
	if i == len(c.pods) {
		o.finish()
		return
	}
	first := 0
	if o.twin[i] {
		if first = c.at[i-1]; first < 0 { // an identical pod is unplaced: so is this one
			o.search(i + 1)
			return
		}
	}
	if c.pods[i].Refused == "" {
		rank := o.priority(c.pods[i])
		o.score.Placed[rank]++
		for at := first; at < len(c.places); at++ {
			o.put(i, at)
		}
		o.open(i)
		o.score.Placed[rank]--
	}
	o.search(i + 1)
}

// put tries pod i on a place that exists or was launched already.
func (o *oracle) put(i, at int) {
	c := o.cluster
	if c.places[at].closed || c.unfit(i, at) != "" {
		return
	}
	c.at[i] = at
	defer func() { c.at[i] = -1 }()
	if c.crowded(at) != "" || c.unwelcome(i, at) {
		return
	}
	weight := -1
	if c.places[at].launch {
		weight = o.weight(c.places[at].weight)
	}
	o.score.light(weight, 1)
	o.search(i + 1)
	o.score.light(weight, -1)
}

// light counts a pod on a new node of a pool; pools of the highest weight do not count.
func (s *Score) light(weight, n int) {
	if weight >= 0 && weight < len(s.Light) {
		s.Light[weight] += n
	}
}

// open launches each row for pod i as its first pod.
func (o *oracle) open(i int) {
	for r := range o.rows {
		row := &o.rows[r]
		if !o.afford(row) {
			continue
		}
		o.take(row, 1)
		p := row.place
		p.labels = maps.Clone(p.labels)
		p.labels[cluster.LabelHostname] = []string{"a name nobody knows " + string(rune('a'+len(o.cluster.places)))}
		o.cluster.places = append(o.cluster.places, p)
		o.score.Price += row.price
		o.put(i, len(o.cluster.places)-1)
		o.score.Price -= row.price
		o.cluster.places = o.cluster.places[:len(o.cluster.places)-1]
		o.take(row, -1)
	}
}

func (o *oracle) afford(r *row) bool {
	for name, left := range o.left[r.pool] {
		need := r.size[name]
		if name == quantity.NameNodes {
			need = 1
		}
		if left < 0 || need > left {
			return false
		}
	}
	for _, d := range r.quotaUses {
		if left, ok := o.quotas[d.Quota]; ok && d.Amount > left {
			return false
		}
	}
	return true
}

func (o *oracle) take(r *row, n int64) {
	for name := range o.left[r.pool] {
		if name == quantity.NameNodes {
			o.left[r.pool][name] -= n
		} else {
			o.left[r.pool][name] -= n * r.size[name]
		}
	}
	for _, d := range r.quotaUses {
		if _, ok := o.quotas[d.Quota]; ok {
			o.quotas[d.Quota] -= n * d.Amount
		}
	}
}

// hopeless reports whether the best score would not be beaten even if every later pod that fits
// somewhere were placed.
func (o *oracle) hopeless(i int) bool {
	if !o.found {
		return false
	}
	dream := Score{Placed: slices.Clone(o.score.Placed), Light: o.score.Light, Price: o.score.Price}
	for rank, n := range o.later[i] {
		dream.Placed[rank] += n
	}
	if slices.Equal(dream.Placed, o.best.Placed) { // it can win by price only
		dream.Price += o.toPay(i)
	}
	return dream.Compare(o.best) >= 0
}

// toPay is a lower bound of the price for placing all pods from i on.
func (o *oracle) toPay(i int) offering.Price {
	short := o.cpu[i]
	c := o.cluster
	for at := range c.places {
		short -= max(0, c.places[at].room[quantity.NameCPU])
	}
	for j := c.bound; j < i; j++ {
		if c.at[j] >= 0 {
			short += c.pods[j].Requests[quantity.NameCPU]
		}
	}
	if short <= 0 || math.IsInf(o.perCPU, 1) {
		return 0
	}
	return offering.Price(float64(short) * o.perCPU * (1 - 1e-9))
}

func (o *oracle) finish() {
	if o.topo {
		if o.steps += 50; o.cluster.alone() || o.cluster.replay() != "" {
			return
		}
	}
	o.found = true
	o.best = Score{Placed: slices.Clone(o.score.Placed), Light: slices.Clone(o.score.Light), Price: o.score.Price}
}
