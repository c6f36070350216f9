package disruption

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

const (
	// month is how many hours a month's bill has.
	month = 730
	// named bounds how many nodes and pods one log line or event names.
	named = 10
	// repeat is how long the reason why a node stays is not repeated.
	repeat = 15 * time.Minute
	// factsAnnotation holds the parameters of an event's message as JSON.
	factsAnnotation = "karve.dev/facts"
)

// about publishes an event on a machine's claim and node.
func (c *Controller) about(machine kube.Machine, e events.Event) {
	if machine.Claim != nil {
		e.About = machine.Claim
		c.Events.Publish(e)
	}
	if machine.Node != nil {
		e.About = machine.Node
		c.Events.Publish(e)
	}
}

func (c *Controller) tellChosen(m *move, s *sight) {
	text := fmt.Sprintf("Chosen to be disrupted as %s: %s; validated in %s", m.Cause, m.gist(), c.Validation)
	for _, key := range m.Nodes {
		c.about(s.machines[key], events.Event{Reason: "ConsolidationCandidate", Key: m.id, Message: text})
	}
}

// gist says what the move does and saves, in words.
func (m *move) gist() string {
	what := fmt.Sprintf("delete %s", count(len(m.Nodes), "node"))
	if n := len(m.Launches); n > 0 {
		what = fmt.Sprintf("replace %s by %d", count(len(m.Nodes), "node"), n)
	}
	if m.Evictions > 0 {
		what += fmt.Sprintf(", moving %s", count(m.Evictions, "pod"))
	}
	if saved := m.Saves(); saved > 0 {
		what += fmt.Sprintf(", saving $%.2f a month", monthly(saved))
	}
	return what
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func monthly(p offering.Price) float64 { return month * p.USD() }

// tellRejected says that a move was not right any more when it was looked at again.
func (c *Controller) tellRejected(m *move, key, why string) {
	c.Log.Info("abandoning disruption, it is not right any more", "move", m.id, "reason", m.reason(), "nodeclaim", key, "why", why)
	if machine, ok := c.Mirror.Machine(key); ok && m.patient() {
		c.about(machine, events.Event{Reason: "ConsolidationRejected", Key: m.id, Message: cmp.Or(why, "The decision does not hold any more")})
	}
}

// tellStarting says what is about to happen, once nothing stands in its way.
func (c *Controller) tellStarting(m *move) {
	line := []any{"move", m.id, "reason", m.reason(), "decision", m.decision(), "disrupted-node-count", len(m.Nodes),
		"replacement-node-count", len(m.Launches), "pod-count", m.Evictions, "price-before", m.Before.USD(), "price-after", m.After.USD(),
		"saves-per-month", cents(monthly(m.Saves())), "nodes", c.describe(m.Nodes)}
	if len(m.Launches) > 0 {
		line = append(line, "replacements", replacements(m.purchases))
	}
	if len(m.pods) > 0 {
		line = append(line, "pods", c.destinations(m))
	}
	if m.Detail != "" {
		line = append(line, "why", m.Detail)
	}
	c.Log.Info("disrupting node(s)", line...)
	c.Metrics.DisruptionDecisions.WithLabelValues(m.decision(), m.reason(), m.kind()).Inc()
	pools := map[string]bool{}
	for _, key := range m.Nodes {
		machine, _ := c.Mirror.Machine(key)
		pools[machine.World.Pool] = true
	}
	for pool := range pools {
		c.Metrics.DisruptionByPool.WithLabelValues(pool, m.decision(), m.reason(), m.kind()).Inc()
		if m.patient() {
			c.Metrics.ConsolidationMoves.WithLabelValues(approved, pool, c.policyOf(pool)).Inc()
		}
	}
	for pool, score := range m.Score {
		c.Metrics.ConsolidationScore.WithLabelValues(approved, pool, string(disrupt.Balanced)).Observe(score)
		c.tellScore(m, pool, score)
	}
}

// What a NodePool's policy says of a consolidation.
const approved, rejected = "approved", "rejected"

func (c *Controller) policyOf(pool string) string {
	p := c.Mirror.Pool(pool)
	if p == nil {
		return ""
	}
	return string(p.Spec.Disruption.ConsolidationPolicy)
}

func cents(usd float64) float64 { return math.Round(usd*100) / 100 }

// describe names nodes with what they are.
func (c *Controller) describe(keys []string) []string {
	out := make([]string, 0, min(len(keys), named+1))
	for i, key := range keys {
		if i == named {
			return append(out, fmt.Sprintf("and %d more", len(keys)-named))
		}
		machine, _ := c.Mirror.Machine(key)
		labels := machine.World.Labels
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s/%s/%s", cmp.Or(machine.World.Name, key),
			labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"], labels[karpv1.CapacityTypeLabelKey])))
	}
	return out
}

func replacements(bought []purchase) []string {
	var out []string
	for _, p := range bought {
		first := p.launch.Offerings[0]
		out = append(out, fmt.Sprintf("%s %s/%s/%s or %d others", p.claim.Name, first.Type, first.Zone, first.CapacityType, len(p.launch.Offerings)-1))
	}
	return out
}

// destinations says where the pods go: node, then how many and the first of them.
func (c *Controller) destinations(m *move) []string {
	var out []string
	add := func(to string, n schedule.Nomination) {
		if len(n.Pods) == 0 {
			return
		}
		first := n.Pods[0].Namespace + "/" + n.Pods[0].Name
		if len(n.Pods) > 1 {
			first += fmt.Sprintf(" and %d more", len(n.Pods)-1)
		}
		out = append(out, first+" to "+to)
	}
	for _, h := range m.Receivers {
		add(c.Mirror.Describe(h.Node), h)
	}
	for _, p := range m.purchases {
		add("nodeclaim/"+p.claim.Name, schedule.Nomination{Pods: p.launch.Pods})
	}
	if len(out) > named {
		out = append(out[:named:named], fmt.Sprintf("and to %d more nodes", len(out)-named))
	}
	return out
}

func (c *Controller) tellScore(m *move, pool string, score float64) {
	text := fmt.Sprintf("Balanced policy approves: score %.2f, %.2f is enough; %s", score, disrupt.Threshold, m.gist())
	if p := c.Mirror.Pool(pool); p != nil {
		c.Events.Publish(events.Event{About: p, Reason: "ConsolidationApproved", Key: m.id, Message: text})
	}
	for _, key := range m.Nodes {
		if machine, ok := c.Mirror.Machine(key); ok && machine.World.Pool == pool {
			c.about(machine, events.Event{Reason: "ConsolidationApproved", Key: m.id, Message: text})
		}
	}
}

func (c *Controller) tellLaunching(m *move, p purchase) {
	l := p.launch
	c.Events.Publish(events.Event{About: p.claim, Reason: "DisruptionLaunching", Message: "Launching NodeClaim: " + string(m.Cause)})
	first := l.Offerings[0]
	c.Log.Info("created nodeclaim", "nodepool", l.Pool, "nodeclaim", p.claim.Name, "move", m.id, "pods", len(l.Pods), "requests", l.Requests,
		"choices", len(l.Offerings), "instance-type", first.Type, "zone", first.Zone, "capacity-type", first.CapacityType, "price", first.Price.USD())
}

func (c *Controller) tellWaiting(_ *move, claim *karpv1.NodeClaim) {
	c.Events.Publish(events.Event{About: claim, Reason: "DisruptionWaitingReadiness", Message: "Waiting on readiness to continue disruption"})
}

// tellRemoved says that a node was asked to go.
func (c *Controller) tellRemoved(m *move, machine kube.Machine) {
	c.about(machine, events.Event{Reason: "DisruptionTerminating", Message: "Disrupting Node: " + string(m.Cause)})
	c.Metrics.Disrupted(machine.Claim, m.reason())
	c.count(m, machine)
	c.Log.Info("deleted nodeclaim", "nodeclaim", machine.Claim.Name, "node", machine.World.Name, "move", m.id, "reason", m.reason())
}

// tellFailed says that a move is taken back.
func (c *Controller) tellFailed(m *move, why string) {
	c.Metrics.DisruptionQueueFailures.WithLabelValues(m.decision(), m.reason(), m.kind()).Inc()
	c.Log.Info("taking back disruption", "move", m.id, "reason", m.reason(), "decision", m.decision(), "nodeclaims", m.Nodes, "why", why)
	for _, key := range m.Nodes {
		if machine, ok := c.Mirror.Machine(key); ok {
			c.about(machine, events.Event{Warning: true, Reason: "DisruptionFailed", Key: m.id,
				Message: fmt.Sprintf("Disrupting as %s is taken back: %s", m.Cause, why)})
		}
	}
}

// tellUndone says that a consolidation was in vain, and what follows from that.
func (c *Controller) tellUndone(x suspect, pool string) {
	rest := c.relapses.lulls[pool].length
	c.Metrics.ConsolidationsUndone.WithLabelValues(pool).Inc()
	c.Log.Info("consolidation did not come true, its nodepool rests", "move", x.of.id, "nodepool", pool, "nodeclaim", x.claim,
		"pod", x.pod.Namespace+"/"+x.pod.Name, "consolidated-again-in", rest.String())
	p := c.Mirror.Pool(pool)
	if p == nil {
		return
	}
	c.Events.Publish(events.Event{About: p, Reason: "ConsolidationUndone", Key: x.of.id, Message: fmt.Sprintf(
		"A consolidation did not come true: the scheduler put its pods elsewhere, and nodeclaim %s was bought for %s/%s; underutilized nodes are left alone for %s",
		x.claim, x.pod.Namespace, x.pod.Name, rest)})
}

// record says what a complete search found out.
func (c *Controller) record(s *sight) {
	c.tellMisread()
	pinned := map[[2]string]float64{}
	blocked := map[string]disrupt.Kept{}
	for _, l := range c.search.left {
		machine, ok := s.machines[l.Key]
		if !ok {
			continue
		}
		if l.Costs > 0 {
			pinned[[2]string{machine.World.Pool, string(l.Because)}] += monthly(l.Costs)
		}
		if l.Because == disrupt.BudgetExhausted {
			blocked[l.Detail+"\x00"+machine.World.Pool] = l
		}
		if l.Because == disrupt.PoorScore {
			c.Metrics.ConsolidationMoves.WithLabelValues(rejected, machine.World.Pool, c.policyOf(machine.World.Pool)).Inc()
		}
		c.tellLeft(machine, l, s)
	}
	c.eligible(s)
	c.Metrics.PinnedCost.Reset()
	for key, cost := range pinned {
		c.Metrics.PinnedCost.WithLabelValues(key[0], key[1]).Set(cents(cost))
	}
	for _, key := range slices.Sorted(maps.Keys(blocked)) {
		text, pool, _ := strings.Cut(key, "\x00")
		if p := c.Mirror.Pool(pool); p != nil {
			c.Events.Publish(events.Event{About: p, Reason: "DisruptionBlocked", Every: time.Minute, Message: text, Annotations: factsData(blocked[key].Facts)})
		}
	}
	c.budgets(s)
}

// tellLeft tells a node's owner why it stays and what that costs.
func (c *Controller) tellLeft(machine kube.Machine, l disrupt.Kept, s *sight) {
	name := disrupt.Event(l.Because)
	if name == "" || leaving(machine) || machine.World.Leaving || passing(l, s.now) {
		return
	}
	text := l.Detail
	if cents(monthly(l.Costs)) > 0 {
		text += fmt.Sprintf(" (costs $%.2f a month)", monthly(l.Costs))
	}
	c.about(machine, events.Event{Reason: name, Message: text, Key: string(l.Because), Every: repeat, Annotations: factsData(l.Facts)})
}

// passing reports whether the reason is no news: it lapses before it would be repeated.
func passing(l disrupt.Kept, now time.Time) bool {
	return l.Because == disrupt.TooYoung && l.Until.Before(now.Add(repeat))
}

func factsData(facts reason.Facts) map[string]string {
	if len(facts) == 0 {
		return nil
	}
	text, err := json.Marshal(facts)
	if err != nil || len(text) > 8<<10 {
		return nil // the message has the gist
	}
	return map[string]string{factsAnnotation: string(text)}
}

// budgets shows what budgets leave, for every cause that they know.
func (c *Controller) budgets(s *sight) {
	d := c.cluster(s, nil)
	census := disrupt.CountNodes(&d)
	c.Metrics.AllowedDisruptions.Reset() // pools that are gone have none
	c.Metrics.ConsumingBudgets.Reset()
	for name, pool := range s.pools {
		for _, cause := range []disrupt.Cause{disrupt.Empty, disrupt.Drifted, disrupt.Underutilized} {
			allowed, _ := disrupt.Allowed(&pool, census[name], cause)
			c.Metrics.AllowedDisruptions.WithLabelValues(name, string(cause)).Set(float64(allowed))
			c.Metrics.ConsumingBudgets.WithLabelValues(name, string(cause)).Set(float64(census[name].Down))
		}
	}
}

// tellRefused says that a node stays because its deletion was refused again and again.
func (c *Controller) tellRefused(m *move, machine kube.Machine, err error) {
	c.Metrics.DisruptionQueueFailures.WithLabelValues(m.decision(), m.reason(), m.kind()).Inc()
	c.Log.Error(err, "node stays, its deletion is refused", "move", m.id, "reason", m.reason(), "nodeclaim", machine.Claim.Name)
	c.about(machine, events.Event{Warning: true, Reason: "DisruptionFailed", Key: m.id,
		Message: fmt.Sprintf("Disrupting as %s failed: the deletion was refused for %s: %v", m.Cause, insists, err)})
}
