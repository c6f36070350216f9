// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// Check verifies a plan against its script from first principles, without the engine's own indexes.
// Every pending pod appears exactly once. kube-scheduler accepts every placement on any of the
// launch's offerings, and there is an order in which it binds all of them. Limits, quotas and
// reservations are kept, minValues hold, static pools launch nothing, no two pods use a claim that
// is for one, no pod is left out for which some node has capacity, and the price is not below the
// lower bound.
//
// Domains are those of nodes that exist or are launched: kube-scheduler sees no others. A plan
// that also counts domains that could be opened, and so spreads wider, passes too.
func Check(s *Script, p schedule.Plan) error {
	c := &checker{Script: s, plan: p, pods: map[string]int{}, seen: map[string]int{}}
	c.everyPodOnce()
	c.build()
	for _, n := range p.Nominations {
		c.nomination(n)
	}
	for i, l := range p.Launches {
		if pool, had := c.launch(i, l); had != nil {
			c.minValues(i, l, *pool, had)
			if err := c.runnersUp(l); err != nil {
				c.fail("launch %d: %w", i, err)
			}
		}
	}
	if len(c.errs) == 0 {
		c.exclusiveClaims()
		c.bindable()
		c.unplacedNeedlessly()
	}
	c.preferences()
	c.limits()
	c.quotas()
	if slices.ContainsFunc(p.Launches, func(l schedule.Launch) bool { return len(l.Offerings) == 0 }) {
		return errors.Join(c.errs...) // such a plan has no price
	}
	if p.Price() < p.LowerBound {
		c.fail("costs %s, less than its own lower bound %s", p.Price(), p.LowerBound)
	}
	return errors.Join(c.errs...)
}

type checker struct {
	*Script
	plan schedule.Plan
	pods map[string]int // by UID, into cluster.pods
	seen map[string]int
	errs []error

	cluster   *refCluster
	byKey     map[string]int // index into nodes by node key
	firstNode []int          // index into nodes by launch, as its first offering
}

func (c *checker) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) everyPodOnce() {
	note := func(pods []cluster.PodRef) {
		for _, p := range pods {
			c.seen[p.UID]++
		}
	}
	for _, n := range c.plan.Nominations {
		note(n.Pods)
	}
	for _, l := range c.plan.Launches {
		note(l.Pods)
	}
	for _, u := range c.plan.Unplaced {
		note(u.Pods)
		if u.Because == "" {
			c.fail("%s is unplaced without a reason", names(u.Pods))
		}
		c.reasons(u)
	}
	for _, pod := range c.Pods {
		want := 0
		if c.needsNode(pod) {
			want = 1
		}
		if c.seen[pod.UID] != want {
			c.fail("pod %s appears %d times in the plan, want %d", pod.Name, c.seen[pod.UID], want)
		}
	}
}

func (c *checker) leaving(node string) bool {
	return slices.ContainsFunc(c.Nodes, func(n cluster.Node) bool { return n.Name == node && n.MarkedForDeletion })
}

// needsNode reports whether the pod needs a placement: the plan must mention it.
func (c *checker) needsNode(p cluster.Pod) bool {
	return p.Node == "" || c.leaving(p.Node) && p.ReschedulableNow
}

// build sets up the nodes that are not leaving, the pods that run on them, and the pods that
// need a node.
func (c *checker) build() {
	pods, bound := c.Script.runningThenPending(c.needsNode)
	for i, p := range pods {
		c.pods[p.UID] = i
	}
	c.cluster = newCluster(c.Script, pods, bound)
	c.byKey = c.addNodes(c.cluster)
}

// runningThenPending lists the running pods that are not to be placed, then the pods that need a
// node.
func (s *Script) runningThenPending(needsNode func(cluster.Pod) bool) (pods []*cluster.Pod, bound int) {
	var wait []*cluster.Pod
	for i := range s.Pods {
		if needsNode(s.Pods[i]) {
			wait = append(wait, &s.Pods[i])
		} else {
			pods = append(pods, &s.Pods[i])
		}
	}
	return append(pods, wait...), len(pods)
}

// addNodes adds each node that is not leaving, with its bound pods.
func (s *Script) addNodes(c *refCluster) map[string]int {
	byKey := map[string]int{}
	for _, n := range s.Nodes {
		if n.MarkedForDeletion {
			continue
		}
		labels := map[string][]string{cluster.LabelHostname: {"unregistered " + n.Key}}
		for k, v := range n.Labels {
			labels[k] = []string{v}
		}
		room := n.Allocatable
		at := len(c.nodes)
		for i, p := range c.pods[:c.bound] {
			if n.Name != "" && p.Node == n.Name {
				room = room.Sub(p.Requests)
				c.nodeOf[i] = at
			}
		}
		byKey[n.Key] = at
		overhead, ports := s.daemons(labels, n.Taints, n.Name)
		c.nodes = append(c.nodes, refNode{
			name: "node " + n.Key, labels: labels, taints: n.Taints, takesNoPods: n.TakesNoPods,
			free: room.Sub(overhead), attach: attachable(n.Allocatable), ports: ports,
		})
	}
	return byKey
}

func attachable(a quantity.Amounts) map[string]int64 {
	out := map[string]int64{}
	for name, n := range a {
		if driver, ok := strings.CutPrefix(name, quantity.Attachable); ok {
			out[driver] = n
		}
	}
	return out
}

func (c *checker) nomination(n schedule.Nomination) {
	at, ok := c.byKey[n.Node]
	if !ok || c.cluster.nodes[at].takesNoPods {
		c.fail("pods nominated to %s, which takes no pods", n.Node)
		return
	}
	c.assign(at, n.Pods)
}

// launch adds the node of a launch with its pods. It returns the NodePool and the labels that the
// offerings have, or nil when there is no such NodePool or no offering.
func (c *checker) launch(i int, l schedule.Launch) (*cluster.NodePool, labelValues) {
	c.firstNode = append(c.firstNode, len(c.cluster.nodes))
	p := slices.IndexFunc(c.Pools, func(p cluster.NodePool) bool { return p.Name == l.Pool })
	if len(l.Offerings) == 0 || p < 0 {
		c.fail("launch %d has no choices or no pool", i)
		return nil, nil
	}
	if !slices.IsSortedFunc(l.Offerings, func(a, b offering.Ref) int { return cmp.Compare(a.Price, b.Price) }) {
		c.fail("launch %d: choices are not sorted by price", i)
	}
	pool := c.Pools[p]
	if pool.Static || pool.Blocked != "" {
		c.fail("launch %d is for pool %s, which is static or blocked", i, pool.Name)
	}
	had := labelValues{}
	at := len(c.cluster.nodes)
	c.cluster.nodes = append(c.cluster.nodes, refNode{})
	for k := len(l.Offerings) - 1; k >= 0; k-- { // ends with the first offering
		c.cluster.nodes[at] = c.nodeOfLaunch(i, l, pool, l.Offerings[k])
		had.add(c.cluster.nodes[at].labels)
		c.assign(at, l.Pods)
	}
	return &c.Pools[p], had
}

// nodeOfLaunch makes the node that a launch becomes with one of its offerings.
func (c *checker) nodeOfLaunch(i int, l schedule.Launch, pool cluster.NodePool, choice offering.Ref) refNode {
	t, o := c.offered(choice)
	if t == nil || o.Unavailable != "" || o.Price != choice.Price {
		c.fail("launch %d: choice %v is not offered", i, choice)
		return refNode{}
	}
	labels := c.labelsOf(*t, *o, pool)
	for _, r := range l.Rules {
		if _, carried := labels[r.Key]; !carried && r.Operator == constraint.In {
			labels[r.Key] = r.Values
			if len(r.Values) != 1 {
				c.fail("launch %d leaves label %s open: %v", i, r.Key, r.Values)
			}
		}
		if !satisfies(r, labels[r.Key]) {
			c.fail("launch %d: choice %v does not meet the launch's own rule %s", i, choice, r)
		}
		// The launch sets one of the values that its rules allow.
		labels[r.Key] = slices.DeleteFunc(slices.Clone(labels[r.Key]), func(v string) bool { return !valueSatisfies(r, v) })
	}
	for _, r := range pool.Requirements {
		if !satisfies(r, labels[r.Key]) {
			c.fail("launch %d: choice %v does not meet the pool's %s", i, choice, r)
		}
	}
	n := c.newNode(*t, pool, labels)
	n.name = fmt.Sprintf("launch %d as %v", i, choice)
	n.labels[cluster.LabelHostname] = []string{fmt.Sprintf("a new hostname %d", i)}
	return n
}

func (s *Script) offered(choice offering.Ref) (*offering.InstanceType, *offering.Offering) {
	for i := range s.Types {
		for j := range s.Types[i].Offerings {
			o := &s.Types[i].Offerings[j]
			if s.Types[i].Name == choice.Type && o.Zone == choice.Zone && o.CapacityType == choice.CapacityType && o.Price == choice.Price {
				return &s.Types[i], o
			}
		}
	}
	return nil, nil
}

// labelsOf are the values that a pool's node of that offering may have.
func (s *Script) labelsOf(t offering.InstanceType, o offering.Offering, pool cluster.NodePool) map[string][]string {
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string][]string{}
	}
	maps.Copy(labels, o.Labels)
	maps.Copy(labels, map[string][]string{
		cluster.LabelNodePool: {pool.Name}, cluster.LabelInstanceType: {t.Name}, cluster.LabelZone: {o.Zone},
		cluster.LabelCapacityType: {o.CapacityType}, cluster.LabelHostname: {"a new hostname"},
	})
	for k, v := range pool.Labels {
		labels[k] = []string{v}
	}
	return labels
}

func (s *Script) newNode(t offering.InstanceType, pool cluster.NodePool, labels map[string][]string) refNode {
	room := t.Capacity.Sub(t.Overhead)
	if t.SustainedCPU > 0 && !pool.FullCPU && !named(t, pool) {
		room[quantity.NameCPU] -= t.Capacity[quantity.NameCPU] - t.SustainedCPU
	}
	overhead, ports := s.daemons(labels, pool.Taints, "")
	return refNode{labels: labels, taints: pool.Taints, free: room.Sub(overhead), attach: attachable(room), ports: ports, weight: pool.Weight, launched: true}
}

// named reports whether the pool names the burstable type.
func named(t offering.InstanceType, pool cluster.NodePool) bool {
	for _, key := range t.NamedBy {
		asked := []string{pool.Labels[key]}
		for _, r := range pool.Requirements {
			if r.Key == key && r.Operator == constraint.In {
				asked = append(asked, r.Values...)
			}
		}
		for _, v := range asked {
			if key == cluster.LabelInstanceType && v == t.Name || slices.Contains(t.Labels[key], v) {
				return true
			}
		}
	}
	return false
}

// daemons sums the requests of the DaemonSets that match a node and have no pod on it yet, and
// lists their ports.
func (s *Script) daemons(labels map[string][]string, taints []cluster.Taint, node string) (sum quantity.Amounts, ports []cluster.Port) {
	sum = quantity.Amounts{}
	for _, d := range s.Daemons {
		present := slices.ContainsFunc(s.Pods, func(p cluster.Pod) bool { return node != "" && p.Node == node && p.DaemonSet == d.UID })
		if _, ok := cluster.Tolerates(d.Tolerations, taints); ok && !present && matchesTerms(d.Required, d.AnyOf, labels) {
			sum, ports = sum.Add(d.Requests), append(ports, d.Ports...)
		}
	}
	return sum, ports
}

// assign assigns the pods to a node and checks what does not depend on other places.
func (c *checker) assign(at int, pods []cluster.PodRef) {
	where := c.cluster.nodes[at].name
	for _, ref := range pods {
		i, ok := c.pods[ref.UID]
		if !ok {
			c.fail("%s: pod %s is not in the script", where, ref.Name)
			continue
		}
		c.cluster.nodeOf[i] = at
		if p := c.cluster.pods[i]; p.Refused != "" {
			c.fail("%s: pod %s was refused: %s", where, ref.Name, p.RefusedDetail)
		}
		if why := c.cluster.neverFits(i, at); why != "" {
			c.fail("%s: pod %s %s", where, ref.Name, why)
		}
	}
	if why := c.cluster.overcommitted(at); why != "" {
		c.fail("%s: %s", where, why)
	}
}

// bindable replays the plan with first offerings, then with one launch at a time as each of its
// other offerings in other domains.
func (c *checker) bindable() {
	if why := c.cluster.replay(); why != "" {
		c.fail("no order of binding works: %s", why)
		return
	}
	keys := c.topologyKeys()
	for i, l := range c.plan.Launches {
		pool := c.Pools[slices.IndexFunc(c.Pools, func(p cluster.NodePool) bool { return p.Name == l.Pool })]
		first := c.cluster.nodes[c.firstNode[i]]
		tried := map[string]bool{domains(first, keys): true}
		for _, choice := range l.Offerings[min(1, len(l.Offerings)):] {
			other := c.nodeOfLaunch(i, l, pool, choice)
			if d := domains(other, keys); tried[d] {
				continue
			} else {
				tried[d] = true
			}
			c.cluster.nodes[c.firstNode[i]] = other
			if why := c.cluster.replay(); why != "" {
				c.fail("%s instead of its first choice: no order of binding works: %s", other.name, why)
			}
		}
		c.cluster.nodes[c.firstNode[i]] = first
	}
}

// topologyKeys are the topology keys of required terms of any pod.
func (c *checker) topologyKeys() []string {
	keys := map[string]bool{}
	for _, p := range c.cluster.pods {
		for _, sp := range p.Spreads {
			keys[sp.Key] = keys[sp.Key] || !sp.Soft
		}
		for _, t := range slices.Concat(p.Affinity, p.AntiAffinity) {
			keys[t.Key] = keys[t.Key] || t.Weight == 0
		}
	}
	maps.DeleteFunc(keys, func(_ string, hard bool) bool { return !hard })
	return slices.Sorted(maps.Keys(keys))
}

func domains(p refNode, keys []string) string {
	out := ""
	for _, k := range keys {
		v, ok := p.value(k)
		out += fmt.Sprintf("%q %v;", v, ok)
	}
	return out
}

// unplacedNeedlessly checks that no pod is unplaced that fits on an existing node as planned, or
// on one without its virtual pods. Pods that spread are skipped: a plan may count domains that do
// not exist yet. Nor may a pod be unplaced for which a node could be launched: see couldBuy.
func (c *checker) unplacedNeedlessly() {
	for _, u := range c.plan.Unplaced {
		c.minValuesNeedlessly(u)
		for _, ref := range u.Pods {
			i := c.pods[ref.UID]
			if p := c.cluster.pods[i]; p.Refused != "" || len(c.cluster.spreads[i]) > 0 || optsOutOfPools(p) || c.userOfClaims(i) != nil {
				continue
			}
			for _, at := range c.byKey {
				c.fitsExisting(i, at)
			}
		}
		for _, ref := range u.Pods {
			if u.Because != reason.Invalid { // its requests are invalid
				c.fitsLaunch(c.pods[ref.UID])
			}
		}
	}
}

// fitsLaunch checks that no pod is unplaced that depends on no pods except those of its own node,
// and for which a pool without limits, quota or minValues could launch a node. Nodes that may
// still have several values for some label are skipped.
func (c *checker) fitsLaunch(i int) {
	if p := c.cluster.pods[i]; p.Refused != "" || optsOutOfPools(p) || c.dependsOnOtherNodes(i) || c.userOfClaims(i) != nil {
		return
	}
	for _, pool := range c.Pools {
		if pool.Static || pool.Blocked != "" || len(pool.Limits) > 0 || slices.ContainsFunc(pool.Requirements, func(r constraint.Rule) bool { return r.MinValues > 0 }) {
			continue
		}
		c.eachNewNode(i, pool, func(at int) {
			if why, _ := c.cluster.rejectedFor(i, at); why == "" && !c.cluster.nodes[at].undecided() {
				c.fail("pod %s is left out although pool %s could launch a node for it: %v", c.cluster.pods[i].Name, pool.Name, c.cluster.nodes[at].labels)
			}
		})
	}
}

// undecided reports whether some label still has several values.
func (p *refNode) undecided() bool {
	for _, values := range p.labels {
		if len(values) > 1 {
			return true
		}
	}
	return false
}

// dependsOnOtherNodes reports whether the pod has affinity, or rules about pods on other nodes.
func (c *checker) dependsOnOtherNodes(i int) bool {
	beyond := func(t podTerm) bool { return t.key != cluster.LabelHostname }
	return c.cluster.hasAffinity[i] || slices.ContainsFunc(c.cluster.spreads[i], beyond) || slices.ContainsFunc(c.cluster.antiAffinity[i], beyond)
}

func optsOutOfPools(p *cluster.Pod) bool {
	labels := map[string][]string{cluster.LabelNodePool: {"any"}}
	return slices.ContainsFunc(append(slices.Concat(p.AnyOf...), p.Required...), func(r constraint.Rule) bool {
		return r.Key == cluster.LabelNodePool && !satisfies(r, labels[r.Key])
	})
}

func (c *checker) fitsExisting(i, at int) {
	if c.cluster.nodes[at].takesNoPods || c.cluster.neverFits(i, at) != "" {
		return
	}
	before := slices.Clone(c.cluster.nodeOf)
	defer copy(c.cluster.nodeOf, before)
	for j := c.cluster.bound; j < len(before); j++ {
		if c.cluster.pods[j].Virtual && !c.cluster.pods[i].Virtual && before[j] == at {
			c.cluster.nodeOf[j] = -1
		}
	}
	if why, _ := c.cluster.rejectedFor(i, at); why != "" {
		return
	}
	c.cluster.nodeOf[i] = at
	if c.cluster.overcommitted(at) == "" {
		c.fail("pod %s is left out although %s would take it", c.cluster.pods[i].Name, c.cluster.nodes[at].name)
	}
}

func matchesTerms(required cluster.Term, anyOf []cluster.Term, labels map[string][]string) bool {
	all := func(t cluster.Term) bool {
		for _, r := range t {
			if !satisfies(r, labels[r.Key]) {
				return false
			}
		}
		return true
	}
	return all(required) && (len(anyOf) == 0 || slices.ContainsFunc(anyOf, all))
}

// satisfies evaluates one rule by Kubernetes' definition: one value that the label may have must
// satisfy it.
func satisfies(r constraint.Rule, values []string) bool {
	if len(values) == 0 {
		return r.Operator == constraint.NotIn || r.Operator == constraint.DoesNotExist
	}
	return slices.ContainsFunc(values, func(v string) bool { return valueSatisfies(r, v) })
}

func valueSatisfies(r constraint.Rule, v string) bool {
	switch r.Operator {
	case constraint.In:
		return slices.Contains(r.Values, v)
	case constraint.NotIn:
		return !slices.Contains(r.Values, v)
	case constraint.Exists:
		return true
	case constraint.DoesNotExist:
		return false
	}
	var have, bound int64
	if _, err := fmt.Sscanf(v, "%d", &have); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(r.Values[0], "%d", &bound); err != nil {
		return false
	}
	switch r.Operator {
	case constraint.Gt:
		return have > bound
	case constraint.Lt:
		return have < bound
	case constraint.Gte:
		return have >= bound
	}
	return have <= bound
}

// limits adds up, by pool, the existing capacity and the largest offering of every launch.
func (c *checker) limits() {
	for _, pool := range c.Pools {
		held, nodes := quantity.Amounts{}, 0
		for _, n := range c.Nodes {
			if n.Pool == pool.Name {
				held, nodes = held.Add(n.Capacity), nodes+1
			}
		}
		before := held
		launched := 0
		for _, l := range c.plan.Launches {
			if l.Pool != pool.Name {
				continue
			}
			launched++
			largest := quantity.Amounts{}
			for _, choice := range l.Offerings {
				t := c.Types[slices.IndexFunc(c.Types, func(t offering.InstanceType) bool { return t.Name == choice.Type })]
				for name, n := range t.Capacity {
					largest[name] = max(largest[name], n)
				}
			}
			held = held.Add(largest)
		}
		for name, limit := range pool.Limits {
			if name == quantity.NameNodes {
				if launched > 0 && int64(nodes+launched) > limit {
					c.fail("pool %s: %d nodes, limit %d", pool.Name, nodes+launched, limit)
				}
				continue
			}
			if held[name] > limit && held[name] > before[name] {
				c.fail("pool %s: %d of %s, limit %d", pool.Name, held[name], name, limit)
			}
		}
	}
}

// quotas adds up the quota use of the first offerings and of nodes that are starting.
func (c *checker) quotas() {
	before, used := map[string]int64{}, map[string]int64{}
	for _, n := range c.Nodes {
		for _, d := range n.QuotaUses {
			before[d.Quota] += d.Amount
		}
	}
	for _, l := range c.plan.Launches {
		if len(l.Offerings) == 0 {
			continue
		}
		if _, o := c.offered(l.Offerings[0]); o != nil {
			for _, d := range o.QuotaUses {
				used[d.Quota] += d.Amount
			}
		}
	}
	for name, n := range used {
		if left, ok := c.Quotas[name]; ok && n > max(0, left-before[name]) {
			c.fail("quota %s: %d used, %d left", name, n, left-before[name])
		}
	}
}
