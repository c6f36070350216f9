// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
)

// place is a node as kube-scheduler will see it: one that exists, or one that a plan launches.
type place struct {
	name   string
	labels map[string][]string // several values where the launch may still choose
	taints []cluster.Taint
	// room is the free capacity for planned pods, after bound pods and DaemonSets.
	room quantity.Amounts
	// attach are the attach limits by driver; no entry means no limit.
	attach map[string]int64
	// ports are those of DaemonSets whose pods are not there yet.
	ports  []cluster.Port
	closed bool // takes no pods, though the pods that it has count
	weight int32
	launch bool
}

// value is the label as topology terms see it.
func (p *place) value(key string) (string, bool) {
	if v := p.labels[key]; len(v) > 0 {
		return v[0], true
	}
	return "", false
}

// refCluster is every place with the pods on it. It answers kube-scheduler's questions by
// counting. Leaving nodes are not part of it: their pods are checked on their new nodes, as if
// the old node were removed.
type refCluster struct {
	places []place
	pods   []*cluster.Pod
	at     []int // place of each pod; -1 while it has none
	bound  int   // pods[:bound] ran before the plan

	spreads  [][]counted // by pod, required ones only
	near     [][]bool    // near[i][j]: j matches every required affinity term of i
	anti     [][]counted
	hasNear  []bool
	frontier *frontier
	turns    []int // the order in which replay bound the planned pods
}

// counted is a term with the pods that it selects.
type counted struct {
	key   string
	picks []bool
	skew  cluster.TopologySpreadConstraint
}

// frontier holds domains that do not exist yet but could be opened by a launch, as the oracle
// counts them; nil when only nodes count, as for kube-scheduler.
type frontier struct {
	values func(pod int, key string) []string
}

func newCluster(s *Script, pods []*cluster.Pod, bound int) *refCluster {
	c := &refCluster{pods: pods, bound: bound, at: make([]int, len(pods)), hasNear: make([]bool, len(pods))}
	c.spreads, c.anti, c.near = make([][]counted, len(pods)), make([][]counted, len(pods)), make([][]bool, len(pods))
	for i, p := range pods {
		c.at[i] = -1
		for _, sp := range p.Spreads {
			if !sp.Soft {
				c.spreads[i] = append(c.spreads[i], counted{sp.Key, s.picked(sp.Select, pods), sp})
			}
		}
		for _, t := range p.AntiAffinity {
			if t.Weight == 0 {
				c.anti[i] = append(c.anti[i], counted{key: t.Key, picks: s.picked(t.Select, pods)})
			}
		}
		for _, t := range p.Affinity {
			if t.Weight != 0 {
				continue
			}
			picks := s.picked(t.Select, pods)
			for j := range picks {
				picks[j] = picks[j] && (!c.hasNear[i] || c.near[i][j])
			}
			c.near[i], c.hasNear[i] = picks, true
		}
	}
	return c
}

func (s *Script) picked(sel cluster.Selector, pods []*cluster.Pod) []bool {
	out := make([]bool, len(pods))
	for j, p := range pods {
		out[j] = s.picks(sel, p)
	}
	return out
}

// picks reports whether a selector selects a pod.
func (s *Script) picks(sel cluster.Selector, p *cluster.Pod) bool {
	if sel.Nothing {
		return false
	}
	in := slices.Contains(sel.Namespaces, p.Namespace)
	if !in && sel.NamespaceLabels != nil {
		in = holds(sel.NamespaceLabels, s.Namespaces[p.Namespace])
	}
	return in && holds(sel.Labels, p.Labels)
}

func holds(t cluster.Term, labels map[string]string) bool {
	for _, r := range t {
		var values []string
		if v, ok := labels[r.Key]; ok {
			values = []string{v}
		}
		if !satisfies(r, values) {
			return false
		}
	}
	return true
}

// unfit says why a pod can never run on a place, even an empty one; "" when it can.
func (c *refCluster) unfit(i, at int) string {
	p, n := c.pods[i], &c.places[at]
	if t, ok := cluster.Tolerates(p.Tolerations, n.taints); !ok {
		return fmt.Sprintf("does not tolerate %s", t)
	}
	if !meets(p.Required, p.AnyOf, n.labels) {
		return "requires other labels"
	}
	for _, v := range p.Volumes {
		if !meets(nil, v.AnyOf, n.labels) {
			return fmt.Sprintf("has volume %s, which cannot be mounted there", v.ID)
		}
	}
	return ""
}

// crowded says why the planned pods of a place do not fit together.
func (c *refCluster) crowded(at int) string {
	n := &c.places[at]
	asked := quantity.Amounts{}
	for i := c.bound; i < len(c.pods); i++ {
		if c.at[i] == at {
			asked = asked.Add(c.pods[i].Requests)
		}
	}
	for name, want := range asked {
		if want > max(0, n.room[name]) {
			return fmt.Sprintf("pods ask for %d of %s, there is room for %d", want, name, n.room[name])
		}
	}
	if why := c.portTaken(at); why != "" {
		return why
	}
	return c.tooManyVolumes(at)
}

func (c *refCluster) portTaken(at int) string {
	for i := c.bound; i < len(c.pods); i++ {
		if c.at[i] != at || len(c.pods[i].Ports) == 0 {
			continue
		}
		if p, ok := clashing(c.pods[i].Ports, c.places[at].ports); ok {
			return fmt.Sprintf("pod %s and a DaemonSet both take port %s/%d", c.pods[i].Name, p.Protocol, p.Port)
		}
		for j := range c.pods {
			if i == j || c.at[j] != at {
				continue
			}
			if p, ok := clashing(c.pods[i].Ports, c.pods[j].Ports); ok {
				return fmt.Sprintf("pods %s and %s both take port %s/%d", c.pods[i].Name, c.pods[j].Name, p.Protocol, p.Port)
			}
		}
	}
	return ""
}

// clashing returns a port of one list that conflicts with one of the other.
func clashing(these, those []cluster.Port) (cluster.Port, bool) {
	for _, a := range these {
		for _, b := range those {
			if clash(a, b) {
				return a, true
			}
		}
	}
	return cluster.Port{}, false
}

// clash reports whether two ports conflict. A port on all addresses conflicts with the same port
// on any address.
func clash(a, b cluster.Port) bool {
	any := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return a.Port > 0 && a.Port == b.Port && a.Protocol == b.Protocol && (any(a.IP) || any(b.IP) || a.IP == b.IP)
}

// tooManyVolumes counts each volume once per node. Volumes that were attached before the plan are
// no error.
func (c *refCluster) tooManyVolumes(at int) string {
	attached, added := map[string]map[string]bool{}, map[string]bool{}
	for i := range c.pods {
		if c.at[i] != at {
			continue
		}
		for _, v := range c.pods[i].Volumes {
			if v.Driver == "" {
				continue
			}
			if attached[v.Driver] == nil {
				attached[v.Driver] = map[string]bool{}
			}
			added[v.Driver] = added[v.Driver] || i >= c.bound && !attached[v.Driver][v.ID]
			attached[v.Driver][v.ID] = true
		}
	}
	for driver, limit := range c.places[at].attach {
		if n := len(attached[driver]); added[driver] && int64(n) > limit {
			return fmt.Sprintf("%d volumes of %s, %d can be attached", n, driver, limit)
		}
	}
	return ""
}

// refused says why kube-scheduler would reject a place for pod i because of other pods; "" when it
// would not. bootstrap is set when the pod passes only as the first of the pods that its affinity
// selects.
func (c *refCluster) refused(i, at int) (why string, bootstrap bool) {
	if c.unwelcome(i, at) {
		return fmt.Sprintf("pod %s does not stand another in its domain, or another does not stand it", c.pods[i].Name), false
	}
	if c.hasNear[i] {
		ok, first := c.nearby(i, at)
		if !ok {
			return fmt.Sprintf("pod %s is not near what it wants to be near", c.pods[i].Name), false
		}
		bootstrap = first
	}
	for _, t := range c.spreads[i] {
		if skew, ok := c.skew(i, t, at); !ok || skew > int(t.skew.MaxSkew) {
			return fmt.Sprintf("pod %s would be spread by %d over %s (label there: %v), allowed is %d", c.pods[i].Name, skew, t.key, ok, t.skew.MaxSkew), false
		}
	}
	return "", bootstrap
}

// sees reports whether pod j exists for pod i. Virtual pods stand for future pods and see the
// others; kube-scheduler does not see virtual pods.
func (c *refCluster) sees(i, j int) bool { return !c.pods[j].Virtual || c.pods[i].Virtual }

// unwelcome reports whether an anti-affinity term of the pod, or of a placed pod, forbids the
// place.
func (c *refCluster) unwelcome(i, at int) bool {
	for _, t := range c.anti[i] {
		if c.meetsIn(i, t, at) {
			return true
		}
	}
	for j := range c.pods {
		if c.at[j] < 0 || j == i || !c.sees(i, j) {
			continue
		}
		for _, t := range c.anti[j] {
			if t.picks[i] && c.together(c.at[j], at, t.key) {
				return true
			}
		}
	}
	return false
}

func (c *refCluster) together(a, b int, key string) bool {
	v, ok := c.places[a].value(key)
	w, also := c.places[b].value(key)
	return ok && also && v == w
}

// meetsIn reports whether some pod that t selects runs in the same domain.
func (c *refCluster) meetsIn(i int, t counted, at int) bool {
	for j := range c.pods {
		if j != i && c.at[j] >= 0 && t.picks[j] && c.sees(i, j) && c.together(c.at[j], at, t.key) {
			return true
		}
	}
	return false
}

// nearby checks affinity: every required term needs a matching pod in its domain. The first of a
// group with affinity to itself may go anywhere that has the labels.
func (c *refCluster) nearby(i, at int) (ok, first bool) {
	all, anywhere := true, false
	for _, t := range c.pods[i].Affinity {
		if t.Weight != 0 {
			continue
		}
		if _, labelled := c.places[at].value(t.Key); !labelled {
			return false, false
		}
		found := false
		for j := range c.pods {
			if j == i || c.at[j] < 0 || !c.near[i][j] || !c.sees(i, j) {
				continue
			}
			_, labelled := c.places[c.at[j]].value(t.Key)
			anywhere = anywhere || labelled
			found = found || c.together(c.at[j], at, t.Key)
		}
		all = all && found
	}
	if all {
		return true, false
	}
	return !anywhere && c.near[i][i], true
}

// skew is matching pods in the domain + the pod itself − the least of any domain. Nodes count when
// the pod's node affinity and, with HonorTaints, its tolerations admit it and they have all of its
// topology keys. Terminating pods do not count, and an empty selector counts no pods, as in
// kube-scheduler.
func (c *refCluster) skew(i int, t counted, at int) (int, bool) {
	own, ok := c.places[at].value(t.key)
	if !ok {
		return 0, false
	}
	counts := map[string]int{}
	for n := range c.places {
		if v, ok := c.places[n].value(t.key); ok && c.counts(i, t, n) {
			counts[v] += c.matching(i, t, n)
		}
	}
	if c.frontier != nil {
		for _, v := range c.frontier.values(i, t.key) {
			counts[v] += 0
		}
	}
	least, self := 0, 0
	if len(counts) >= int(max(1, t.skew.MinDomains)) {
		least = 1 << 30
		for _, n := range counts {
			least = min(least, n)
		}
	}
	if t.picks[i] {
		self = 1
	}
	return counts[own] + self - least, true
}

func (c *refCluster) counts(i int, t counted, n int) bool {
	p, node := c.pods[i], &c.places[n]
	for _, o := range c.spreads[i] {
		if _, ok := node.value(o.key); !ok {
			return false
		}
	}
	if !t.skew.IgnoreAffinity && !meets(p.Required, p.AnyOf, node.labels) {
		return false
	}
	_, tolerated := cluster.Tolerates(p.Tolerations, node.taints)
	return tolerated || !t.skew.HonorTaints
}

func (c *refCluster) matching(i int, t counted, n int) int {
	if !t.skew.Select.Nothing && len(t.skew.Select.Labels) == 0 {
		return 0
	}
	return c.crowd(i, t, n)
}

// crowd counts the pods on place n that term t selects, as far as pod i sees them. Terminating
// pods do not count, except where a plan places them: there they are new pods.
func (c *refCluster) crowd(i int, t counted, n int) int {
	sum := 0
	for j, p := range c.pods {
		ends := p.Terminating && j < c.bound
		if c.at[j] == n && t.picks[j] && !ends && c.sees(i, j) {
			sum++
		}
	}
	return sum
}

// alone reports whether the affinity of some planned pod is not met, in whatever order pods are
// bound.
func (c *refCluster) alone() bool {
	for i := c.bound; i < len(c.pods); i++ {
		if c.at[i] < 0 || !c.hasNear[i] {
			continue
		}
		if ok, _ := c.nearby(i, c.at[i]); !ok && !c.near[i][i] {
			return true
		}
	}
	return false
}

// replay looks for an order in which kube-scheduler would bind every planned pod to its place. If
// there is none it says why one of the remaining pods was refused.
func (c *refCluster) replay() string {
	want := slices.Clone(c.at)
	why := ""
	for try := range uint64(12) {
		copy(c.at, want)
		if why = c.bind(want, rand.New(rand.NewPCG(try, 5)), try); why == "" {
			break
		}
	}
	copy(c.at, want)
	if why != "" && c.frontier == nil && (c.byKind(want) || c.anyOrder()) { // the oracle skips it
		return ""
	}
	return why
}

// byKind tries orders in which pods that are alike follow each other: where all pods of one
// workload must be bound before any of another, shuffling all pods hardly ever finds such an
// order.
func (c *refCluster) byKind(want []int) bool {
	defer copy(c.at, want)
	var kinds [][]int
	for i := c.bound; i < len(c.pods); i++ {
		if want[i] < 0 {
			continue
		}
		k := slices.IndexFunc(kinds, func(kind []int) bool { return alike(*c.pods[kind[0]], *c.pods[i]) })
		if k < 0 {
			k = len(kinds)
			kinds = append(kinds, nil)
		}
		kinds[k] = append(kinds[k], i)
	}
	for try := range uint64(50) {
		rand.New(rand.NewPCG(try, 6)).Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		if c.seat(slices.Concat(kinds...), want, false, true) == "" {
			return true
		}
	}
	return false
}

// anyOrder tries every order of binding that does not merely swap alike pods of one place, up to a
// bound. Pods that are not part of any topology rule are bound first: their order makes no
// difference.
func (c *refCluster) anyOrder() bool {
	c.turns = c.turns[:0]
	var lots [][]int // alike pods of one place
	for i := c.bound; i < len(c.pods); i++ {
		if c.at[i] < 0 {
			continue
		}
		if c.aloof(i) {
			c.turns = append(c.turns, i)
			continue
		}
		k := slices.IndexFunc(lots, func(lot []int) bool { return c.at[lot[0]] == c.at[i] && alike(*c.pods[lot[0]], *c.pods[i]) })
		if k < 0 {
			k = len(lots)
			lots = append(lots, nil)
		}
		lots[k] = append(lots[k], i)
	}
	want := slices.Clone(c.at)
	defer copy(c.at, want)
	for _, i := range slices.Concat(lots...) {
		c.at[i] = -1
	}
	return c.order(lots, make([]byte, len(lots)), want, map[string]bool{})
}

// aloof reports whether the order in which the pod is bound makes no difference to it or to other
// pods. Virtual pods wait for all others.
func (c *refCluster) aloof(i int) bool {
	if c.pods[i].Virtual || len(c.spreads[i])+len(c.anti[i]) > 0 || c.hasNear[i] {
		return false
	}
	looks := func(t counted) bool { return t.picks[i] }
	for j := range c.pods {
		if slices.ContainsFunc(c.anti[j], looks) || j >= c.bound && (slices.ContainsFunc(c.spreads[j], looks) || c.hasNear[j] && c.near[j][i]) {
			return false
		}
	}
	return true
}

func (c *refCluster) order(lots [][]int, done []byte, want []int, dead map[string]bool) bool {
	if dead[string(done)] || len(dead) > 5000 {
		return false
	}
	all := true
	for k, lot := range lots {
		if int(done[k]) == len(lot) {
			continue
		}
		all = false
		i := lot[done[k]]
		if c.pods[i].Virtual && c.waits(lots, done) {
			continue
		}
		if why, _ := c.refused(i, want[i]); why != "" {
			continue
		}
		c.at[i] = want[i]
		c.turns = append(c.turns, i)
		done[k]++
		if c.order(lots, done, want, dead) {
			return true
		}
		done[k]--
		c.turns = c.turns[:len(c.turns)-1]
		c.at[i] = -1
	}
	dead[string(done)] = !all
	return all
}

// waits reports whether some pod that is not virtual has not been bound yet.
func (c *refCluster) waits(lots [][]int, done []byte) bool {
	for k, lot := range lots {
		if int(done[k]) < len(lot) && !c.pods[lot[0]].Virtual {
			return true
		}
	}
	return false
}

func (c *refCluster) bind(want []int, r *rand.Rand, try uint64) string {
	var left []int
	for i := c.bound; i < len(c.pods); i++ {
		if want[i] >= 0 {
			left = append(left, i)
		}
	}
	if try > 0 {
		r.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
	}
	polite := try%3 == 1
	if polite {
		slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(c.inTheWay(a), c.inTheWay(b)) })
	}
	return c.seat(left, want, try%2 == 0, polite)
}

// seat binds the pods one by one, in the order of next. It says why one of the remaining pods
// was refused; "" when all are bound.
func (c *refCluster) seat(left, want []int, eager, polite bool) string {
	c.turns = c.turns[:0]
	for _, i := range left {
		c.at[i] = -1
	}
	for len(left) > 0 {
		next, why := c.next(left, want, eager, polite)
		if next < 0 {
			return why
		}
		c.at[left[next]] = want[left[next]]
		c.turns = append(c.turns, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return ""
}

// inTheWay counts the spread constraints of other pods that count this pod although it has no such
// constraint itself: it can wait, so that the other pods are bound first.
func (c *refCluster) inTheWay(i int) int {
	n := 0
	for j := c.bound; j < len(c.pods); j++ {
		for _, t := range c.spreads[j] {
			if j != i && t.picks[i] && !slices.ContainsFunc(c.spreads[i], func(o counted) bool { return o.key == t.key }) {
				n++
			}
		}
	}
	return n
}

// next picks the pod that is bound now. With polite it is the first that may be bound.
// Otherwise pods that pass only as the first of their kind are bound first if eager and last if
// not, so that the pods that they have affinity to can be bound before; in between are pods
// that spread, the least skewed first. Virtual pods wait for all others.
func (c *refCluster) next(left, want []int, eager, polite bool) (int, string) {
	best, rank, why := -1, 1<<30, ""
	real := slices.ContainsFunc(left, func(i int) bool { return !c.pods[i].Virtual })
	for k, i := range left {
		if real && c.pods[i].Virtual {
			continue
		}
		reason, bootstrap := c.refused(i, want[i])
		if reason != "" {
			why = reason
			continue
		}
		if polite {
			return k, ""
		}
		own := 1 << 20
		switch {
		case bootstrap && eager:
			own = -1 << 20
		case bootstrap:
			own = 1 << 21
		}
		for _, t := range c.spreads[i] {
			skew, _ := c.skew(i, t, want[i])
			own = min(own, skew)
		}
		if own < rank {
			best, rank = k, own
		}
	}
	return best, why
}
