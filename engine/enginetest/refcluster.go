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

// refNode is a node as kube-scheduler will see it: one that exists, or one that a plan launches.
type refNode struct {
	name   string
	labels map[string][]string // several values where the launch may still choose
	taints []cluster.Taint
	// free is the free capacity for planned pods, after bound pods and DaemonSets.
	free quantity.Amounts
	// attach are the attach limits by driver; no entry means no limit.
	attach map[string]int64
	// ports are those of DaemonSets whose pods are not there yet.
	ports       []cluster.Port
	takesNoPods bool // takes no pods, though the pods that it has count
	weight      int32
	launched    bool
}

// value is the label as topology terms see it.
func (p *refNode) value(key string) (string, bool) {
	if v := p.labels[key]; len(v) > 0 {
		return v[0], true
	}
	return "", false
}

// refCluster is a reference for the engine: every node with the pods on it. It answers
// kube-scheduler's questions by counting. Leaving nodes are not part of it: their pods are checked
// on their new nodes, as if the old node were removed.
type refCluster struct {
	nodes  []refNode
	pods   []*cluster.Pod
	nodeOf []int // index of each pod's node; -1 while it has none
	bound  int   // pods[:bound] ran before the plan

	spreads      [][]podTerm // by pod, required ones only
	affinity     [][]bool    // affinity[i][j]: j matches every required affinity term of i
	antiAffinity [][]podTerm
	hasAffinity  []bool
	openable     *openableDomains
	bindingOrder []int // the order in which replay bound the planned pods
}

// podTerm is a term with the pods that it selects.
type podTerm struct {
	key     string
	selects []bool
	spread  cluster.TopologySpreadConstraint
}

// openableDomains holds domains that do not exist yet but could be opened by a launch, as the
// oracle counts them; nil when only nodes count, as for kube-scheduler.
type openableDomains struct {
	values func(pod int, key string) []string
}

func newCluster(s *Script, pods []*cluster.Pod, bound int) *refCluster {
	c := &refCluster{pods: pods, bound: bound, nodeOf: make([]int, len(pods)), hasAffinity: make([]bool, len(pods))}
	c.spreads, c.antiAffinity, c.affinity = make([][]podTerm, len(pods)), make([][]podTerm, len(pods)), make([][]bool, len(pods))
	for i, p := range pods {
		c.nodeOf[i] = -1
		for _, sp := range p.Spreads {
			if !sp.Soft {
				c.spreads[i] = append(c.spreads[i], podTerm{sp.Key, s.selected(sp.Selector, pods), sp})
			}
		}
		for _, t := range p.AntiAffinity {
			if t.Weight == 0 {
				c.antiAffinity[i] = append(c.antiAffinity[i], podTerm{key: t.Key, selects: s.selected(t.Selector, pods)})
			}
		}
		for _, t := range p.Affinity {
			if t.Weight != 0 {
				continue
			}
			picks := s.selected(t.Selector, pods)
			for j := range picks {
				picks[j] = picks[j] && (!c.hasAffinity[i] || c.affinity[i][j])
			}
			c.affinity[i], c.hasAffinity[i] = picks, true
		}
	}
	return c
}

func (s *Script) selected(sel cluster.Selector, pods []*cluster.Pod) []bool {
	out := make([]bool, len(pods))
	for j, p := range pods {
		out[j] = s.selects(sel, p)
	}
	return out
}

// selects reports whether a selector selects a pod.
func (s *Script) selects(sel cluster.Selector, p *cluster.Pod) bool {
	if sel.Nothing {
		return false
	}
	in := slices.Contains(sel.Namespaces, p.Namespace)
	if !in && sel.NamespaceLabels != nil {
		in = matches(sel.NamespaceLabels, s.Namespaces[p.Namespace])
	}
	return in && matches(sel.Labels, p.Labels)
}

func matches(t cluster.Term, labels map[string]string) bool {
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

// neverFits says why a pod can never run on a node, even an empty one; "" when it can.
func (c *refCluster) neverFits(i, at int) string {
	p, n := c.pods[i], &c.nodes[at]
	if t, ok := cluster.Tolerates(p.Tolerations, n.taints); !ok {
		return fmt.Sprintf("does not tolerate %s", t)
	}
	if !matchesTerms(p.Required, p.AnyOf, n.labels) {
		return "requires other labels"
	}
	for _, v := range p.Volumes {
		if !matchesTerms(nil, v.AnyOf, n.labels) {
			return fmt.Sprintf("has volume %s, which cannot be mounted there", v.ID)
		}
	}
	return ""
}

// overcommitted says why the planned pods of a node do not fit together.
func (c *refCluster) overcommitted(at int) string {
	n := &c.nodes[at]
	asked := quantity.Amounts{}
	for i := c.bound; i < len(c.pods); i++ {
		if c.nodeOf[i] == at {
			asked = asked.Add(c.pods[i].Requests)
		}
	}
	for name, want := range asked {
		if want > max(0, n.free[name]) {
			return fmt.Sprintf("pods ask for %d of %s, there is room for %d", want, name, n.free[name])
		}
	}
	if why := c.portConflict(at); why != "" {
		return why
	}
	return c.tooManyVolumes(at)
}

func (c *refCluster) portConflict(at int) string {
	for i := c.bound; i < len(c.pods); i++ {
		if c.nodeOf[i] != at || len(c.pods[i].Ports) == 0 {
			continue
		}
		if p, ok := conflictingPort(c.pods[i].Ports, c.nodes[at].ports); ok {
			return fmt.Sprintf("pod %s and a DaemonSet both take port %s/%d", c.pods[i].Name, p.Protocol, p.Port)
		}
		for j := range c.pods {
			if i == j || c.nodeOf[j] != at {
				continue
			}
			if p, ok := conflictingPort(c.pods[i].Ports, c.pods[j].Ports); ok {
				return fmt.Sprintf("pods %s and %s both take port %s/%d", c.pods[i].Name, c.pods[j].Name, p.Protocol, p.Port)
			}
		}
	}
	return ""
}

// conflictingPort returns a port of one list that conflicts with one of the other.
func conflictingPort(these, those []cluster.Port) (cluster.Port, bool) {
	for _, a := range these {
		for _, b := range those {
			if portsConflict(a, b) {
				return a, true
			}
		}
	}
	return cluster.Port{}, false
}

// portsConflict reports whether two ports conflict. A port on all addresses conflicts with the
// same port on any address.
func portsConflict(a, b cluster.Port) bool {
	any := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return a.Port > 0 && a.Port == b.Port && a.Protocol == b.Protocol && (any(a.IP) || any(b.IP) || a.IP == b.IP)
}

// tooManyVolumes counts each volume once per node. Volumes that were attached before the plan are
// no error.
func (c *refCluster) tooManyVolumes(at int) string {
	attached, added := map[string]map[string]bool{}, map[string]bool{}
	for i := range c.pods {
		if c.nodeOf[i] != at {
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
	for driver, limit := range c.nodes[at].attach {
		if n := len(attached[driver]); added[driver] && int64(n) > limit {
			return fmt.Sprintf("%d volumes of %s, %d can be attached", n, driver, limit)
		}
	}
	return ""
}

// rejectedFor says why kube-scheduler would reject a node for pod i because of other pods; ""
// when it would not. bootstrap is set when the pod passes only as the first of the pods that its
// affinity selects.
func (c *refCluster) rejectedFor(i, at int) (why string, bootstrap bool) {
	if c.antiAffinityForbids(i, at) {
		return fmt.Sprintf("anti-affinity of pod %s, or against it, forbids the domain", c.pods[i].Name), false
	}
	if c.hasAffinity[i] {
		ok, first := c.affinityAllows(i, at)
		if !ok {
			return fmt.Sprintf("the affinity of pod %s is not met", c.pods[i].Name), false
		}
		bootstrap = first
	}
	for _, t := range c.spreads[i] {
		if skew, ok := c.skew(i, t, at); !ok || skew > int(t.spread.MaxSkew) {
			return fmt.Sprintf("pod %s would be spread by %d over %s (label there: %v), allowed is %d", c.pods[i].Name, skew, t.key, ok, t.spread.MaxSkew), false
		}
	}
	return "", bootstrap
}

// sees reports whether pod j exists for pod i. Virtual pods stand for future pods and see the
// others; kube-scheduler does not see virtual pods.
func (c *refCluster) sees(i, j int) bool { return !c.pods[j].Virtual || c.pods[i].Virtual }

// antiAffinityForbids reports whether an anti-affinity term of the pod, or of a placed pod,
// forbids the node.
func (c *refCluster) antiAffinityForbids(i, at int) bool {
	for _, t := range c.antiAffinity[i] {
		if c.selectedInDomain(i, t, at) {
			return true
		}
	}
	for j := range c.pods {
		if c.nodeOf[j] < 0 || j == i || !c.sees(i, j) {
			continue
		}
		for _, t := range c.antiAffinity[j] {
			if t.selects[i] && c.sameDomain(c.nodeOf[j], at, t.key) {
				return true
			}
		}
	}
	return false
}

func (c *refCluster) sameDomain(a, b int, key string) bool {
	v, ok := c.nodes[a].value(key)
	w, also := c.nodes[b].value(key)
	return ok && also && v == w
}

// selectedInDomain reports whether some pod that t selects runs in the same domain.
func (c *refCluster) selectedInDomain(i int, t podTerm, at int) bool {
	for j := range c.pods {
		if j != i && c.nodeOf[j] >= 0 && t.selects[j] && c.sees(i, j) && c.sameDomain(c.nodeOf[j], at, t.key) {
			return true
		}
	}
	return false
}

// affinityAllows checks affinity: every required term needs a matching pod in its domain. The
// first of a group with affinity to itself may go anywhere that has the labels.
func (c *refCluster) affinityAllows(i, at int) (ok, first bool) {
	all, anywhere := true, false
	for _, t := range c.pods[i].Affinity {
		if t.Weight != 0 {
			continue
		}
		if _, labelled := c.nodes[at].value(t.Key); !labelled {
			return false, false
		}
		found := false
		for j := range c.pods {
			if j == i || c.nodeOf[j] < 0 || !c.affinity[i][j] || !c.sees(i, j) {
				continue
			}
			_, labelled := c.nodes[c.nodeOf[j]].value(t.Key)
			anywhere = anywhere || labelled
			found = found || c.sameDomain(c.nodeOf[j], at, t.Key)
		}
		all = all && found
	}
	if all {
		return true, false
	}
	return !anywhere && c.affinity[i][i], true
}

// skew is matching pods in the domain + the pod itself − the least of any domain. Nodes count when
// the pod's node affinity and, with HonorTaints, its tolerations admit it and they have all of its
// topology keys. Terminating pods do not count, and an empty selector counts no pods, as in
// kube-scheduler.
func (c *refCluster) skew(i int, t podTerm, at int) (int, bool) {
	own, ok := c.nodes[at].value(t.key)
	if !ok {
		return 0, false
	}
	counts := map[string]int{}
	for n := range c.nodes {
		if v, ok := c.nodes[n].value(t.key); ok && c.isCounted(i, t, n) {
			counts[v] += c.selectedPods(i, t, n)
		}
	}
	if c.openable != nil {
		for _, v := range c.openable.values(i, t.key) {
			counts[v] += 0
		}
	}
	least, self := 0, 0
	if len(counts) >= int(max(1, t.spread.MinDomains)) {
		least = 1 << 30
		for _, n := range counts {
			least = min(least, n)
		}
	}
	if t.selects[i] {
		self = 1
	}
	return counts[own] + self - least, true
}

func (c *refCluster) isCounted(i int, t podTerm, n int) bool {
	p, node := c.pods[i], &c.nodes[n]
	for _, o := range c.spreads[i] {
		if _, ok := node.value(o.key); !ok {
			return false
		}
	}
	if !t.spread.IgnoreAffinity && !matchesTerms(p.Required, p.AnyOf, node.labels) {
		return false
	}
	_, tolerated := cluster.Tolerates(p.Tolerations, node.taints)
	return tolerated || !t.spread.HonorTaints
}

func (c *refCluster) selectedPods(i int, t podTerm, n int) int {
	if !t.spread.Selector.Nothing && len(t.spread.Selector.Labels) == 0 {
		return 0
	}
	return c.countPods(i, t, n)
}

// countPods counts the pods on node n that term t selects, as far as pod i sees them. Terminating
// pods do not count, except where a plan assigns them: there they are new pods.
func (c *refCluster) countPods(i int, t podTerm, n int) int {
	sum := 0
	for j, p := range c.pods {
		ends := p.Terminating && j < c.bound
		if c.nodeOf[j] == n && t.selects[j] && !ends && c.sees(i, j) {
			sum++
		}
	}
	return sum
}

// affinityBroken reports whether the affinity of some planned pod is not met, in whatever order
// pods are bound.
func (c *refCluster) affinityBroken() bool {
	for i := c.bound; i < len(c.pods); i++ {
		if c.nodeOf[i] < 0 || !c.hasAffinity[i] {
			continue
		}
		if ok, _ := c.affinityAllows(i, c.nodeOf[i]); !ok && !c.affinity[i][i] {
			return true
		}
	}
	return false
}

// replay looks for an order in which kube-scheduler would bind every planned pod to its node. If
// there is none it says why one of the remaining pods was refused.
func (c *refCluster) replay() string {
	want := slices.Clone(c.nodeOf)
	why := ""
	for try := range uint64(12) {
		copy(c.nodeOf, want)
		if why = c.bind(want, rand.New(rand.NewPCG(try, 5)), try); why == "" {
			break
		}
	}
	copy(c.nodeOf, want)
	if why != "" && c.openable == nil && (c.bindByWorkload(want) || c.bindInAnyOrder()) { // the oracle skips it
		return ""
	}
	return why
}

// bindByWorkload tries orders in which pods that are alike follow each other: where all pods of
// one workload must be bound before any of another, shuffling all pods hardly ever finds such an
// order.
func (c *refCluster) bindByWorkload(want []int) bool {
	defer copy(c.nodeOf, want)
	var kinds [][]int
	for i := c.bound; i < len(c.pods); i++ {
		if want[i] < 0 {
			continue
		}
		k := slices.IndexFunc(kinds, func(kind []int) bool { return identical(*c.pods[kind[0]], *c.pods[i]) })
		if k < 0 {
			k = len(kinds)
			kinds = append(kinds, nil)
		}
		kinds[k] = append(kinds[k], i)
	}
	for try := range uint64(50) {
		rand.New(rand.NewPCG(try, 6)).Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		if c.bindAll(slices.Concat(kinds...), want, firstAllowed) == "" {
			return true
		}
	}
	return false
}

// bindInAnyOrder tries every order of binding that does not merely swap identical pods of one
// node, up to a bound. Pods that are not part of any topology rule are bound first: their order
// makes no difference.
func (c *refCluster) bindInAnyOrder() bool {
	c.bindingOrder = c.bindingOrder[:0]
	var batches [][]int // identical pods of one node
	for i := c.bound; i < len(c.pods); i++ {
		if c.nodeOf[i] < 0 {
			continue
		}
		if c.orderIrrelevant(i) {
			c.bindingOrder = append(c.bindingOrder, i)
			continue
		}
		k := slices.IndexFunc(batches, func(batch []int) bool {
			return c.nodeOf[batch[0]] == c.nodeOf[i] && identical(*c.pods[batch[0]], *c.pods[i])
		})
		if k < 0 {
			k = len(batches)
			batches = append(batches, nil)
		}
		batches[k] = append(batches[k], i)
	}
	want := slices.Clone(c.nodeOf)
	defer copy(c.nodeOf, want)
	for _, i := range slices.Concat(batches...) {
		c.nodeOf[i] = -1
	}
	return c.tryOrders(batches, make([]byte, len(batches)), want, map[string]bool{})
}

// orderIrrelevant reports whether the order in which the pod is bound makes no difference to it or
// to other pods. Virtual pods wait for all others.
func (c *refCluster) orderIrrelevant(i int) bool {
	if c.pods[i].Virtual || len(c.spreads[i])+len(c.antiAffinity[i]) > 0 || c.hasAffinity[i] {
		return false
	}
	looks := func(t podTerm) bool { return t.selects[i] }
	for j := range c.pods {
		if slices.ContainsFunc(c.antiAffinity[j], looks) || j >= c.bound && (slices.ContainsFunc(c.spreads[j], looks) || c.hasAffinity[j] && c.affinity[j][i]) {
			return false
		}
	}
	return true
}

func (c *refCluster) tryOrders(batches [][]int, done []byte, want []int, dead map[string]bool) bool {
	if dead[string(done)] || len(dead) > 5000 {
		return false
	}
	all := true
	for k, batch := range batches {
		if int(done[k]) == len(batch) {
			continue
		}
		all = false
		i := batch[done[k]]
		if c.pods[i].Virtual && c.realPodPending(batches, done) {
			continue
		}
		if why, _ := c.rejectedFor(i, want[i]); why != "" {
			continue
		}
		c.nodeOf[i] = want[i]
		c.bindingOrder = append(c.bindingOrder, i)
		done[k]++
		if c.tryOrders(batches, done, want, dead) {
			return true
		}
		done[k]--
		c.bindingOrder = c.bindingOrder[:len(c.bindingOrder)-1]
		c.nodeOf[i] = -1
	}
	dead[string(done)] = !all
	return all
}

// realPodPending reports whether some pod that is not virtual has not been bound yet.
func (c *refCluster) realPodPending(batches [][]int, done []byte) bool {
	for k, batch := range batches {
		if int(done[k]) < len(batch) && !c.pods[batch[0]].Virtual {
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
	order := bootstrapLast
	switch {
	case try%3 == 1:
		order = firstAllowed
	case try%2 == 0:
		order = bootstrapFirst
	}
	if order == firstAllowed {
		slices.SortStableFunc(left, func(a, b int) int { return cmp.Compare(c.countedByOthers(a), c.countedByOthers(b)) })
	}
	return c.bindAll(left, want, order)
}

// bindAll binds the pods one by one, in the order of next. It says why one of the remaining pods
// was refused; "" when all are bound.
func (c *refCluster) bindAll(left, want []int, order bindOrder) string {
	c.bindingOrder = c.bindingOrder[:0]
	for _, i := range left {
		c.nodeOf[i] = -1
	}
	for len(left) > 0 {
		next, why := c.next(left, want, order)
		if next < 0 {
			return why
		}
		c.nodeOf[left[next]] = want[left[next]]
		c.bindingOrder = append(c.bindingOrder, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return ""
}

// countedByOthers counts the spread constraints of other pods that count this pod although it has
// no such constraint itself: it can wait, so that the other pods are bound first.
func (c *refCluster) countedByOthers(i int) int {
	n := 0
	for j := c.bound; j < len(c.pods); j++ {
		for _, t := range c.spreads[j] {
			if j != i && t.selects[i] && !slices.ContainsFunc(c.spreads[i], func(o podTerm) bool { return o.key == t.key }) {
				n++
			}
		}
	}
	return n
}

// bindOrder is which of several pods that may be bound is bound next. Bootstrap pods are those
// that pass only as the first of the pods that their affinity selects.
type bindOrder uint8

const (
	firstAllowed   bindOrder = iota // the first in the list
	bootstrapFirst                  // bootstrap pods, then pods that spread, the least skewed first
	bootstrapLast                   // likewise, but bootstrap pods last: pods that they have affinity to can be bound before
)

// next is the index of the pod that is bound next; -1 when none may be bound, with a reason.
// Virtual pods wait for all others.
func (c *refCluster) next(left, want []int, order bindOrder) (int, string) {
	best, bestRank, why := -1, 1<<30, ""
	real := slices.ContainsFunc(left, func(i int) bool { return !c.pods[i].Virtual })
	for k, i := range left {
		if real && c.pods[i].Virtual {
			continue
		}
		reason, bootstrap := c.rejectedFor(i, want[i])
		if reason != "" {
			why = reason
			continue
		}
		if order == firstAllowed {
			return k, ""
		}
		rank := 1 << 20
		switch {
		case bootstrap && order == bootstrapFirst:
			rank = -1 << 20
		case bootstrap:
			rank = 1 << 21
		}
		for _, t := range c.spreads[i] {
			skew, _ := c.skew(i, t, want[i])
			rank = min(rank, skew)
		}
		if rank < bestRank {
			best, bestRank = k, rank
		}
	}
	return best, why
}
