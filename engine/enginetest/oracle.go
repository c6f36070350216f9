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

// BestScore tries every way to assign a script's pending pods to nodes, by the rules of Check, and
// returns the best score. It reports false when that takes more than MaxSteps.
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
	cluster        *refCluster
	rows           []row
	existing       int // cluster.nodes[:existing] exist
	score          Score
	best           Score
	found          bool
	steps          int
	limitsLeft     []quantity.Amounts // of limits, by pool
	quotas         map[string]int64
	hasTerms       bool
	placeable      [][]int // later[i]: pods from i on that fit somewhere, by priority rank
	cpu            []int64 // cpu[i]: what those request
	sameAsPrevious []bool  // sameAsPrevious[i]: pod i is exactly like the one before it
	perCPU         float64 // the lowest price of a milli-core of any offering
}

// row is one offering of one pool that can be launched, with one value for every label.
type row struct {
	refNode
	pool      int
	price     offering.Price
	size      quantity.Amounts
	quotaUses []offering.QuotaUse
}

func newOracle(s *Script) *oracle {
	leaving := map[string]bool{}
	for _, n := range s.Nodes {
		leaving[n.Name] = n.MarkedForDeletion
	}
	pods, bound := s.runningThenPending(func(p cluster.Pod) bool { return p.Node == "" || leaving[p.Node] && p.ReschedulableNow })
	o := &oracle{Script: s, ranks: newRanks(s), quotas: maps.Clone(s.Quotas)}
	slices.SortStableFunc(pods[bound:], func(a, b *cluster.Pod) int {
		return cmp.Or(cmp.Compare(o.priority(a), o.priority(b)), -cmp.Compare(a.Requests[quantity.NameCPU], b.Requests[quantity.NameCPU]))
	})
	o.cluster = newCluster(s, pods, bound)
	s.addNodes(o.cluster)
	o.existing = len(o.cluster.nodes)
	o.score, o.best = o.zero(), o.zero()
	o.subtractExisting()
	for i := range s.Pools {
		o.rowsOf(i)
	}
	slices.SortStableFunc(o.rows, func(a, b row) int { return cmp.Compare(a.price, b.price) })
	o.rows = o.distinctRows()
	o.prepareBounds()
	for i := range pods {
		o.hasTerms = o.hasTerms || o.cluster.hasAffinity[i] || len(o.cluster.spreads[i])+len(o.cluster.antiAffinity[i]) > 0
	}
	memo := map[string][]string{}
	o.cluster.openable = &openableDomains{func(pod int, key string) []string {
		id := fmt.Sprint(pod, " ", key)
		if _, ok := memo[id]; !ok {
			memo[id] = o.openableFor(pod, key)
		}
		return memo[id]
	}}
	return o
}

// prepareBounds prepares what hopeless needs: which pods fit somewhere, and what nodes for them
// must cost.
func (o *oracle) prepareBounds() {
	pods, bound := o.cluster.pods, o.cluster.bound
	o.placeable, o.cpu, o.sameAsPrevious = make([][]int, len(pods)+1), make([]int64, len(pods)+1), make([]bool, len(pods))
	o.placeable[len(pods)] = make([]int, len(o.score.Placed))
	for i := len(pods) - 1; i >= bound; i-- {
		o.placeable[i], o.cpu[i] = slices.Clone(o.placeable[i+1]), o.cpu[i+1]
		if o.fitsSomewhere(i) {
			o.placeable[i][o.priority(pods[i])]++
			o.cpu[i] += pods[i].Requests[quantity.NameCPU]
		}
		o.sameAsPrevious[i] = i > bound && identical(*pods[i-1], *pods[i])
	}
	o.perCPU = math.Inf(1)
	for _, r := range o.rows {
		if n := r.free[quantity.NameCPU]; n > 0 {
			o.perCPU = min(o.perCPU, float64(r.price)/float64(n))
		}
	}
}

func (o *oracle) fitsSomewhere(i int) bool {
	if o.cluster.pods[i].Refused != "" {
		return false
	}
	for at := range o.cluster.nodes {
		p := &o.cluster.nodes[at]
		if !p.takesNoPods && o.fits(i, p) {
			return true
		}
	}
	return slices.ContainsFunc(o.rows, func(r row) bool { return o.fits(i, &r.refNode) })
}

// identical reports whether two pods can be exchanged without any effect.
func identical(a, b cluster.Pod) bool {
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

// distinctRows lists rows, without those that no pod can distinguish from a cheaper one.
func (o *oracle) distinctRows() []row {
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
		id := fmt.Sprint(r.pool, r.free, r.size, r.quotaUses, r.attach, domains(r.refNode, topology))
		for i := o.cluster.bound; i < len(o.cluster.pods); i++ {
			p := o.cluster.pods[i]
			id += fmt.Sprint(matchesTerms(p.Required, p.AnyOf, r.labels))
			for _, v := range p.Volumes {
				id += fmt.Sprint(matchesTerms(nil, v.AnyOf, r.labels))
			}
		}
		again := seen[id]
		seen[id] = true
		return again
	})
}

// subtractExisting subtracts existing nodes from limits and quotas.
func (o *oracle) subtractExisting() {
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
		o.limitsLeft = append(o.limitsLeft, left)
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
			for key, values := range o.poolLabels(p) {
				labels[key] = values
			}
			o.eachLabelling(labels, func(settled map[string][]string) {
				for _, r := range p.Requirements {
					if !satisfies(r, settled[r.Key]) {
						return
					}
				}
				o.rows = append(o.rows, row{refNode: o.newNode(t, p, settled), pool: pool, price: of.Price, size: t.Capacity, quotaUses: of.QuotaUses})
			})
		}
	}
}

// poolLabels are the values worth trying for labels that only the pool gives its nodes: the values
// that rules mention, one that no rule mentions, and no label.
func (o *oracle) poolLabels(p cluster.NodePool) map[string][]string {
	out := map[string][]string{}
	for _, r := range p.Requirements {
		if _, fixed := p.Labels[r.Key]; fixed || o.fromType(r.Key) {
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

func (o *oracle) fromType(key string) bool {
	return slices.ContainsFunc(o.Types, func(t offering.InstanceType) bool {
		return len(t.Labels[key]) > 0 || slices.ContainsFunc(t.Offerings, func(of offering.Offering) bool { return len(of.Labels[key]) > 0 }) ||
			key == cluster.LabelZone || key == cluster.LabelCapacityType || key == cluster.LabelInstanceType || key == cluster.LabelHostname || key == cluster.LabelNodePool
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

// eachLabelling yields every way to give each label one value.
func (o *oracle) eachLabelling(labels map[string][]string, yield func(map[string][]string)) {
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
			o.eachLabelling(one, yield)
		}
		return
	}
	yield(maps.Clone(labels))
}

// openableFor are the domains that launching an offering could open for a pod. A new hostname is
// always possible.
func (o *oracle) openableFor(pod int, key string) []string {
	if key == cluster.LabelHostname {
		return []string{"one more"}
	}
	var out []string
	for _, r := range o.rows {
		if v, ok := r.value(key); ok && !slices.Contains(out, v) && o.fits(pod, &r.refNode) {
			out = append(out, v)
		}
	}
	return out
}

func (o *oracle) fits(pod int, r *refNode) bool {
	p := o.cluster.pods[pod]
	if _, ok := cluster.Tolerates(p.Tolerations, r.taints); !ok || !matchesTerms(p.Required, p.AnyOf, r.labels) {
		return false
	}
	for name, n := range p.Requests {
		if n > max(0, r.free[name]) {
			return false
		}
	}
	_, taken := conflictingPort(p.Ports, r.ports)
	return !taken
}

// search assigns pod i in every way, then the pods after it.
func (o *oracle) search(i int) {
	if o.steps++; o.steps >= MaxSteps || o.cannotImprove(i) {
		return
	}
	c := o.cluster
	if i == len(c.pods) {
		o.finish()
		return
	}
	first := 0
	if o.sameAsPrevious[i] {
		if first = c.nodeOf[i-1]; first < 0 { // an identical pod is unplaced: so is this one
			o.search(i + 1)
			return
		}
	}
	if c.pods[i].Refused == "" {
		rank := o.priority(c.pods[i])
		o.score.Placed[rank]++
		for at := first; at < len(c.nodes); at++ {
			o.put(i, at)
		}
		o.launchFor(i)
		o.score.Placed[rank]--
	}
	o.search(i + 1)
}

// put tries pod i on a node that exists or was launched already.
func (o *oracle) put(i, at int) {
	c := o.cluster
	if c.nodes[at].takesNoPods || c.neverFits(i, at) != "" {
		return
	}
	c.nodeOf[i] = at
	defer func() { c.nodeOf[i] = -1 }()
	if c.overcommitted(at) != "" || c.antiAffinityForbids(i, at) {
		return
	}
	weight := -1
	if c.nodes[at].launched {
		weight = o.weight(c.nodes[at].weight)
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

// launchFor launches each row for pod i as its first pod.
func (o *oracle) launchFor(i int) {
	for r := range o.rows {
		row := &o.rows[r]
		if !o.withinLimits(row) {
			continue
		}
		o.useLimits(row, 1)
		p := row.refNode
		p.labels = maps.Clone(p.labels)
		p.labels[cluster.LabelHostname] = []string{"a new hostname " + string(rune('a'+len(o.cluster.nodes)))}
		o.cluster.nodes = append(o.cluster.nodes, p)
		o.score.Price += row.price
		o.put(i, len(o.cluster.nodes)-1)
		o.score.Price -= row.price
		o.cluster.nodes = o.cluster.nodes[:len(o.cluster.nodes)-1]
		o.useLimits(row, -1)
	}
}

func (o *oracle) withinLimits(r *row) bool {
	for name, left := range o.limitsLeft[r.pool] {
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

func (o *oracle) useLimits(r *row, n int64) {
	for name := range o.limitsLeft[r.pool] {
		if name == quantity.NameNodes {
			o.limitsLeft[r.pool][name] -= n
		} else {
			o.limitsLeft[r.pool][name] -= n * r.size[name]
		}
	}
	for _, d := range r.quotaUses {
		if _, ok := o.quotas[d.Quota]; ok {
			o.quotas[d.Quota] -= n * d.Amount
		}
	}
}

// cannotImprove reports whether the best score would not be beaten even if every later pod that
// fits somewhere were placed.
func (o *oracle) cannotImprove(i int) bool {
	if !o.found {
		return false
	}
	bestCase := Score{Placed: slices.Clone(o.score.Placed), Light: o.score.Light, Price: o.score.Price}
	for rank, n := range o.placeable[i] {
		bestCase.Placed[rank] += n
	}
	if slices.Equal(bestCase.Placed, o.best.Placed) { // it can win by price only
		bestCase.Price += o.priceLowerBound(i)
	}
	return bestCase.Compare(o.best) >= 0
}

// priceLowerBound is a lower bound of the price for placing all pods from i on.
func (o *oracle) priceLowerBound(i int) offering.Price {
	short := o.cpu[i]
	c := o.cluster
	for at := range c.nodes {
		short -= max(0, c.nodes[at].free[quantity.NameCPU])
	}
	for j := c.bound; j < i; j++ {
		if c.nodeOf[j] >= 0 {
			short += c.pods[j].Requests[quantity.NameCPU]
		}
	}
	if short <= 0 || math.IsInf(o.perCPU, 1) {
		return 0
	}
	return offering.Price(float64(short) * o.perCPU * (1 - 1e-9))
}

func (o *oracle) finish() {
	if o.hasTerms {
		if o.steps += 50; o.cluster.affinityBroken() || o.cluster.replay() != "" {
			return
		}
	}
	o.found = true
	o.best = Score{Placed: slices.Clone(o.score.Placed), Light: slices.Clone(o.score.Light), Price: o.score.Price}
}
