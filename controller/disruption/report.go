// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-logr/logr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// reporter reports the progress of moves: by events, by metrics, and in the log.
type reporter struct {
	events     *events.Recorder
	metrics    *metrics.Set
	log        logr.Logger
	mirror     *state.Mirror
	validation time.Duration
}

// reportEffect reports one of the effects of package disruption that are reports.
func (r *reporter) reportEffect(m *move, e effect) {
	for _, event := range r.logAndCount(m, e) {
		r.events.Publish(event)
	}
}

// logAndCount logs and counts an effect, and returns its events.
func (r *reporter) logAndCount(m *move, e effect) []events.Event {
	switch e := e.(type) {
	case reportChosen:
		return r.chosen(m, e.view)
	case reportRejected:
		return r.rejected(m, e)
	case reportMarkFailed:
		return r.markFailed(m, e)
	case reportKept:
		r.log.Info("node stays after all", "move", m.id, "nodeclaim", e.key, "reason", e.why)
		return nil
	case reportDecision:
		return r.decided(m)
	case reportLaunched:
		return r.claimCreated(m, e.replacement)
	case reportLaunchFailed:
		r.log.Error(e.err, "could not launch all replacements", "move", m.id)
		return nil
	case reportAwaiting:
		return []events.Event{{About: e.claim, Reason: "DisruptionWaitingReadiness", Message: "Waiting on readiness to continue disruption"}}
	case reportDeleted:
		return r.deleted(m, e.node)
	case reportRefused:
		return r.refused(m, e)
	case reportFailed:
		return r.failed(m, e.why)
	}
	panic(fmt.Sprintf("disruption: no report is a %T", e))
}

// about is an event on a claim and the same on its Node, as far as they exist.
func about(node kube.ManagedNode, e events.Event) (all []events.Event) {
	if node.Claim != nil {
		e.About = node.Claim
		all = append(all, e)
	}
	if node.Node != nil {
		e.About = node.Node
		all = append(all, e)
	}
	return all
}

func (r *reporter) chosen(m *move, v *view) (all []events.Event) {
	text := fmt.Sprintf("Chosen to be disrupted as %s: %s; validated in %s", m.Cause, m.summary(), r.validation)
	for _, key := range m.Nodes {
		all = append(all, about(v.byClaim[key], events.Event{Reason: "ConsolidationCandidate", Key: m.id, Message: text})...)
	}
	return all
}

// observeDecisionTime records how long it took to decide on a move, whose nodes are marked next.
func (r *reporter) observeDecisionTime(m *move) {
	r.metrics.DisruptionDeciding.WithLabelValues(m.reason(), m.consolidationType()).Observe(time.Since(m.searched).Seconds())
}

func (r *reporter) rejected(m *move, e reportRejected) []events.Event {
	r.metrics.DisruptionFailedValidates.WithLabelValues(m.consolidationType()).Add(float64(e.nodes))
	r.log.Info("giving up disruption, it is not valid any more", "move", m.id, "reason", m.reason(), "nodeclaim", e.key, "why", e.why)
	if !m.consolidates() {
		return nil
	}
	node, _ := r.mirror.ManagedNode(e.key)
	return about(node, events.Event{Reason: "ConsolidationRejected", Key: m.id, Message: cmp.Or(e.why, "The decision is not valid any more")})
}

func (r *reporter) markFailed(m *move, e reportMarkFailed) []events.Event {
	text := "could not mark a node"
	if e.goesOn {
		text = "could not mark a node, going on with the others"
	}
	r.log.Error(e.err, text, "move", m.id, "nodeclaim", e.key)
	return nil
}

// decided reports the move as a disruption decision: no node has an objection, and the NodeClaims
// of its replacements, if any, are created.
func (r *reporter) decided(m *move) (all []events.Event) {
	nodes := r.managedNodes(m.Nodes)
	r.logDecision(m, nodes)
	r.metrics.DisruptionDecisions.WithLabelValues(m.decision(), m.reason(), m.consolidationType()).Inc()
	pools := map[string]bool{}
	for _, node := range nodes {
		pools[node.InSnapshot.Pool] = true
	}
	for pool := range pools {
		r.metrics.DisruptionByPool.WithLabelValues(pool, m.decision(), m.reason(), m.consolidationType()).Inc()
		if m.consolidates() {
			r.metrics.ConsolidationMoves.WithLabelValues(approved, pool, r.policyOf(pool)).Inc()
		}
	}
	for pool, score := range m.Score {
		r.metrics.ConsolidationScore.WithLabelValues(approved, pool, string(disrupt.Balanced)).Observe(score)
		all = append(all, r.score(m, nodes, pool)...)
	}
	return all
}

// managedNodes looks up nodes by their keys; those that do not exist any more are zero.
func (r *reporter) managedNodes(keys []string) []kube.ManagedNode {
	nodes := make([]kube.ManagedNode, len(keys))
	for i, key := range keys {
		nodes[i], _ = r.mirror.ManagedNode(key)
	}
	return nodes
}

func (r *reporter) logDecision(m *move, nodes []kube.ManagedNode) {
	line := []any{"move", m.id, "reason", m.reason(), "decision", m.decision(), "disrupted-node-count", len(m.Nodes),
		"replacement-node-count", len(m.Launches), "pod-count", m.Evictions, "price-before", m.PriceBefore.USD(), "price-after", m.PriceAfter.USD(),
		"saves-per-month", cents(monthly(m.Saves())), "nodes", describe(m.Nodes, nodes)}
	if len(m.Launches) > 0 {
		line = append(line, "replacements", describeReplacements(m.replacements))
	}
	if len(m.planned) > 0 {
		line = append(line, "pods", r.destinations(m))
	}
	if m.Detail != "" {
		line = append(line, "why", m.Detail)
	}
	if len(m.CutShort) > 0 {
		line = append(line, "cut-short", m.CutShort)
		r.metrics.CountCutShort(m.CutShort)
	}
	r.log.Info("disrupting node(s)", line...)
}

// score is the events on a NodePool with the Balanced policy, and on its nodes, that the policy
// approves the move.
func (r *reporter) score(m *move, nodes []kube.ManagedNode, pool string) (all []events.Event) {
	event := events.Event{Reason: "ConsolidationApproved", Key: m.id,
		Message: fmt.Sprintf("Balanced policy approves: score %.2f, %.2f is enough; %s", m.Score[pool], disrupt.BalancedThreshold, m.summary())}
	if p := r.mirror.Pool(pool); p != nil {
		event.About = p
		all = append(all, event)
	}
	for _, node := range nodes {
		if node.InSnapshot.Pool == pool {
			all = append(all, about(node, event)...)
		}
	}
	return all
}

func (r *reporter) claimCreated(m *move, x replacement) []events.Event {
	l := x.launch
	r.metrics.ClaimsCreated.WithLabelValues(m.reason(), l.Pool, fmt.Sprint(len(l.Relaxed) > 0)).Inc()
	first := l.Offerings[0]
	r.log.Info("created nodeclaim", "nodepool", l.Pool, "nodeclaim", x.claim.Name, "move", m.id, "pods", len(l.Pods), "requests", l.Requests,
		"offerings", len(l.Offerings), "instance-type", first.Type, "zone", first.Zone, "capacity-type", first.CapacityType, "price", first.Price.USD())
	return []events.Event{{About: x.claim, Reason: "DisruptionLaunching", Message: "Launching NodeClaim: " + string(m.Cause)}}
}

func (r *reporter) deleted(m *move, node kube.ManagedNode) []events.Event {
	r.metrics.Disrupted(node.Claim, m.reason())
	r.countDeleted(m, node)
	r.log.Info("deleted nodeclaim", "nodeclaim", node.Claim.Name, "node", node.InSnapshot.Name, "move", m.id, "reason", m.reason())
	return about(node, events.Event{Reason: "DisruptionTerminating", Message: "Disrupting Node: " + string(m.Cause)})
}

// countDeleted counts the pods that the deletion of a node evicts and what it saves. A move of an
// earlier process saves as well, but its savings are unknown.
func (r *reporter) countDeleted(m *move, node kube.ManagedNode) {
	pool, labels := node.InSnapshot.Pool, node.Claim.Labels
	policy := ""
	if m.consolidates() {
		policy = r.policyOf(pool)
	}
	pods, now := 0.0, time.Now()
	for _, p := range node.Pods {
		if kube.ReschedulableNow(p, now) {
			pods++
		}
	}
	r.metrics.PodsDisrupted.WithLabelValues(m.reason(), pool, labels[karpv1.CapacityTypeLabelKey], policy, terminationMode(node.Claim)).Add(pods)
	if m.consolidates() && m.PriceBefore > 0 {
		share := 1 - m.PriceAfter.USD()/m.PriceBefore.USD()
		r.metrics.ConsolidationSaved.WithLabelValues(pool).Add(max(0, share*node.InSnapshot.Price.USD()))
	}
}

// terminationMode is the effect of the claim's terminationGracePeriod on its pods, in Karpenter's
// words.
func terminationMode(claim *karpv1.NodeClaim) string {
	switch grace := claim.Spec.TerminationGracePeriod; {
	case grace == nil:
		return "graceful"
	case grace.Duration > 0:
		return "eventual"
	}
	return "forceful"
}

func (r *reporter) refused(m *move, e reportRefused) []events.Event {
	r.metrics.DisruptionQueueFailures.WithLabelValues(m.decision(), m.reason(), m.consolidationType()).Inc()
	r.log.Error(e.err, "node stays, its deletion is refused", "move", m.id, "reason", m.reason(), "nodeclaim", e.node.Claim.Name)
	return about(e.node, events.Event{Warning: true, Reason: "DisruptionFailed", Key: m.id,
		Message: fmt.Sprintf("Disrupting as %s failed: the deletion was refused for %s: %v", m.Cause, retryRefused, e.err)})
}

func (r *reporter) failed(m *move, why string) (all []events.Event) {
	r.metrics.DisruptionQueueFailures.WithLabelValues(m.decision(), m.reason(), m.consolidationType()).Inc()
	r.log.Info("taking back disruption", "move", m.id, "reason", m.reason(), "decision", m.decision(), "nodeclaims", m.Nodes, "why", why)
	for _, node := range r.managedNodes(m.Nodes) {
		all = append(all, about(node, events.Event{Warning: true, Reason: "DisruptionFailed", Key: m.id,
			Message: fmt.Sprintf("Disrupting as %s is taken back: %s", m.Cause, why)})...)
	}
	return all
}

// undone reports that kube-scheduler undid a consolidation, and for how long its NodePool is
// paused.
func (r *reporter) undone(x relaunch, pool string, length time.Duration) {
	r.metrics.ConsolidationsUndone.WithLabelValues(pool).Inc()
	r.log.Info("consolidation was undone, its nodepool is not consolidated for a while", "move", x.of.id, "nodepool", pool,
		"nodeclaim", x.claim, "pod", x.pod.Namespace+"/"+x.pod.Name, "consolidated-again-in", length.String())
	p := r.mirror.Pool(pool)
	if p == nil {
		return
	}
	r.events.Publish(events.Event{About: p, Reason: "ConsolidationUndone", Key: x.of.id, Message: fmt.Sprintf(
		"A consolidation was undone: the scheduler put its pods elsewhere, and nodeclaim %s was launched for %s/%s; underutilized nodes are left alone for %s",
		x.claim, x.pod.Namespace, x.pod.Name, length)})
}

// Decisions of a NodePool's consolidation policy, as metrics spell them.
const approved, rejected = "approved", "rejected"

func (r *reporter) policyOf(pool string) string {
	p := r.mirror.Pool(pool)
	if p == nil {
		return ""
	}
	return string(p.Spec.Disruption.ConsolidationPolicy)
}

// maxNamed bounds how many nodes and pods one log line or event names.
const maxNamed = 10

// describe names nodes with their instance type, zone and capacity type.
func describe(keys []string, nodes []kube.ManagedNode) []string {
	out := make([]string, 0, min(len(keys), maxNamed+1))
	for i, key := range keys {
		if i == maxNamed {
			return append(out, fmt.Sprintf("and %d more", len(keys)-maxNamed))
		}
		labels := nodes[i].InSnapshot.Labels
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s/%s/%s", cmp.Or(nodes[i].InSnapshot.Name, key),
			labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"], labels[karpv1.CapacityTypeLabelKey])))
	}
	return out
}

func describeReplacements(all []replacement) []string {
	var out []string
	for _, r := range all {
		first := r.launch.Offerings[0]
		out = append(out, fmt.Sprintf("%s %s/%s/%s or %d others", r.claim.Name, first.Type, first.Zone, first.CapacityType, len(r.launch.Offerings)-1))
	}
	return out
}

// destinations lists the nodes that the pods move to: the first pods, how many more, and the node.
func (r *reporter) destinations(m *move) []string {
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
	for _, n := range m.Nominations {
		add(r.mirror.DescribeNode(n.Node), n)
	}
	for _, x := range m.replacements {
		add("nodeclaim/"+x.claim.Name, schedule.Nomination{Pods: x.launch.Pods})
	}
	if len(out) > maxNamed {
		out = append(out[:maxNamed:maxNamed], fmt.Sprintf("and to %d more nodes", len(out)-maxNamed))
	}
	return out
}

// decision is Karpenter's name for the kind of move.
func (m *move) decision() string {
	if m.replaces() {
		return "replace"
	}
	return "delete"
}

// consolidationType is the consolidation_type of Karpenter's metrics.
func (m *move) consolidationType() string {
	switch {
	case m.Cause == disrupt.Empty:
		return "empty"
	case m.Cause != disrupt.Underutilized:
		return ""
	case len(m.all) > 1:
		return "multi"
	}
	return "single"
}

// reason is the cause as metrics and claims spell it.
func (m *move) reason() string { return strings.ToLower(string(m.Cause)) }

// summary describes the move and its savings in words.
func (m *move) summary() string {
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

// hoursPerMonth is how many hours a month's bill has.
const hoursPerMonth = 730

func monthly(p offering.Price) float64 { return hoursPerMonth * p.USD() }

func cents(usd float64) float64 { return math.Round(usd*100) / 100 }
