package enginetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
)

// Check holds a plan against its script, from first principles and without the
// engine's own indexes: every pending pod appears exactly once, every placement
// is one the scheduler would accept on any of the launch's choices, limits and
// budgets are kept, and the price is not below the bound.
func Check(s *Script, p pack.Plan) error {
	c := &checker{Script: s, plan: p, pods: map[string]world.Pod{}, seen: map[string]int{}}
	for _, pod := range s.Pods {
		c.pods[pod.UID] = pod
	}
	c.everyPodOnce()
	for _, n := range p.Nominations {
		c.nomination(n)
	}
	for i, l := range p.Launches {
		c.launch(i, l)
	}
	c.limits()
	c.budgets()
	if p.Price() < p.LowerBound {
		c.fail("costs %s, less than its own lower bound %s", p.Price(), p.LowerBound)
	}
	return errors.Join(c.errs...)
}

type checker struct {
	*Script
	plan pack.Plan
	pods map[string]world.Pod
	seen map[string]int
	errs []error
}

func (c *checker) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) everyPodOnce() {
	note := func(pods []world.Ref) {
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
		for _, f := range u.Funnels {
			if f.Blocked == "" && f.Left() != 0 {
				c.fail("%s is unplaced although %d offers of pool %s came through every filter", names(u.Pods), f.Left(), f.Pool)
			}
		}
	}
	for _, pod := range c.Pods {
		want := 0
		if pod.Node == "" || c.leaving(pod.Node) && pod.Movable {
			want = 1
		}
		if c.seen[pod.UID] != want {
			c.fail("pod %s appears %d times in the plan, want %d", pod.Name, c.seen[pod.UID], want)
		}
	}
}

func (c *checker) leaving(node string) bool {
	return slices.ContainsFunc(c.Nodes, func(n world.Node) bool { return n.Name == node && n.Leaving })
}

func (c *checker) nomination(n pack.Nomination) {
	i := slices.IndexFunc(c.Nodes, func(x world.Node) bool { return x.Key == n.Node })
	if i < 0 || c.Nodes[i].Leaving {
		c.fail("pods nominated to %s, which takes none", n.Node)
		return
	}
	node := c.Nodes[i]
	labels := map[string][]string{}
	for k, v := range node.Labels {
		labels[k] = []string{v}
	}
	used := quantity.Amounts{}
	for _, pod := range c.Pods {
		if pod.Node == node.Name && node.Name != "" {
			used = used.Add(pod.Requests)
		}
	}
	used = used.Add(c.daemons(labels, node.Taints, node.Name))
	c.admits(fmt.Sprintf("node %s", n.Node), labels, node.Taints, node.Allocatable.Sub(used), n.Pods)
}

func (c *checker) launch(i int, l pack.Launch) {
	if len(l.Choices) == 0 {
		c.fail("launch %d has no choices", i)
		return
	}
	if !slices.IsSortedFunc(l.Choices, func(a, b offer.Choice) int { return int(a.Price - b.Price) }) {
		c.fail("launch %d: choices are not sorted by price", i)
	}
	pool := c.Pools[slices.IndexFunc(c.Pools, func(p world.Pool) bool { return p.Name == l.Pool })]
	for _, choice := range l.Choices {
		t := c.Types[slices.IndexFunc(c.Types, func(t offer.Type) bool { return t.Name == choice.Type })]
		labels := map[string][]string{
			world.LabelPool: {l.Pool}, world.LabelInstanceType: {choice.Type}, world.LabelZone: {choice.Zone},
			world.LabelCapacityType: {choice.CapacityType}, world.LabelHostname: {"a-name-nobody-knows"},
		}
		for k, v := range t.Labels {
			labels[k] = v
		}
		for k, v := range pool.Labels {
			labels[k] = []string{v}
		}
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
			// Of several values the launch takes one that its rules allow.
			labels[r.Key] = slices.DeleteFunc(slices.Clone(labels[r.Key]), func(v string) bool { return !one(r, v) })
		}
		for _, r := range pool.Requirements {
			if !satisfies(r, labels[r.Key]) {
				c.fail("launch %d: choice %v does not meet the pool's %s", i, choice, r)
			}
		}
		room := t.Capacity.Sub(t.Overhead).Sub(c.daemons(labels, pool.Taints, ""))
		c.admits(fmt.Sprintf("launch %d as %v", i, choice), labels, pool.Taints, room, l.Pods)
	}
}

// daemons sums the DaemonSets that match a node and have no pod on it yet.
func (c *checker) daemons(labels map[string][]string, taints []world.Taint, node string) quantity.Amounts {
	sum := quantity.Amounts{}
	for _, d := range c.Daemons {
		present := slices.ContainsFunc(c.Pods, func(p world.Pod) bool { return node != "" && p.Node == node && p.Daemon == d.UID })
		if _, ok := world.Tolerates(d.Tolerations, taints); ok && !present && meets(d.Required, d.AnyOf, labels) {
			sum = sum.Add(d.Requests)
		}
	}
	return sum
}

func (c *checker) admits(where string, labels map[string][]string, taints []world.Taint, room quantity.Amounts, pods []world.Ref) {
	asked := quantity.Amounts{}
	for _, ref := range pods {
		pod := c.pods[ref.UID]
		if pod.Refused != "" {
			c.fail("%s: pod %s was refused: %s", where, ref.Name, pod.RefusedDetail)
		}
		if t, ok := world.Tolerates(pod.Tolerations, taints); !ok {
			c.fail("%s: pod %s does not tolerate %s", where, ref.Name, t)
		}
		if !meets(pod.Required, pod.AnyOf, labels) {
			c.fail("%s: pod %s requires other labels", where, ref.Name)
		}
		asked = asked.Add(pod.Requests)
	}
	for name, n := range asked {
		if n > max(0, room[name]) {
			c.fail("%s: pods ask for %d of %s, there is room for %d", where, n, name, room[name])
		}
	}
}

func meets(required world.Term, anyOf []world.Term, labels map[string][]string) bool {
	all := func(t world.Term) bool {
		for _, r := range t {
			if !satisfies(r, labels[r.Key]) {
				return false
			}
		}
		return true
	}
	return all(required) && (len(anyOf) == 0 || slices.ContainsFunc(anyOf, all))
}

// satisfies reads one rule straight from Kubernetes' definition: some value the
// label may have must do.
func satisfies(r constraint.Rule, values []string) bool {
	if len(values) == 0 {
		return r.Operator == constraint.NotIn || r.Operator == constraint.DoesNotExist
	}
	return slices.ContainsFunc(values, func(v string) bool { return one(r, v) })
}

func one(r constraint.Rule, v string) bool {
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

// limits adds up, per pool, what exists and the largest choice of every launch.
func (c *checker) limits() {
	for _, pool := range c.Pools {
		held, nodes := quantity.Amounts{}, 0
		for _, n := range c.Nodes {
			if n.Pool == pool.Name {
				held, nodes = held.Add(n.Capacity), nodes+1
			}
		}
		before := held
		bought := 0
		for _, l := range c.plan.Launches {
			if l.Pool != pool.Name {
				continue
			}
			bought++
			largest := quantity.Amounts{}
			for _, choice := range l.Choices {
				t := c.Types[slices.IndexFunc(c.Types, func(t offer.Type) bool { return t.Name == choice.Type })]
				for name, n := range t.Capacity {
					largest[name] = max(largest[name], n)
				}
			}
			held = held.Add(largest)
		}
		for name, limit := range pool.Limits {
			if name == quantity.NameNodes {
				if bought > 0 && int64(nodes+bought) > limit {
					c.fail("pool %s: %d nodes, limit %d", pool.Name, nodes+bought, limit)
				}
				continue
			}
			if held[name] > limit && held[name] > before[name] {
				c.fail("pool %s: %d of %s, limit %d", pool.Name, held[name], name, limit)
			}
		}
	}
}

// budgets adds up what the first choices draw.
func (c *checker) budgets() {
	drawn := map[string]int64{}
	for _, l := range c.plan.Launches {
		choice := l.Choices[0]
		for _, t := range c.Types {
			for _, o := range t.Offers {
				if t.Name == choice.Type && o.Zone == choice.Zone && o.CapacityType == choice.CapacityType {
					for _, d := range o.Draws {
						drawn[d.Budget] += d.Amount
					}
				}
			}
		}
	}
	for name, n := range drawn {
		if left, ok := c.Budgets[name]; ok && n > left {
			c.fail("budget %s: %d drawn, %d left", name, n, left)
		}
	}
}
