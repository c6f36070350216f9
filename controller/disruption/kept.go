// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/kube"
)

// repeatKept is how long the reason why a node is kept is not repeated.
const repeatKept = 15 * time.Minute

// searched reports the results of a complete search: why nodes are kept, what that costs, and how
// many disruptions budgets allow.
func (r *reporter) searched(s search, v *view, in disrupt.Input, moves []*move) {
	r.metrics.DisruptionSearch.Observe(s.spent.Seconds())
	r.invalidAnnotations()
	pinned := map[[2]string]float64{}
	blocked := map[string]disrupt.Kept{}
	for _, k := range s.kept {
		node, ok := v.byClaim[k.Key]
		if !ok {
			continue
		}
		pool := node.InSnapshot.Pool
		if k.WouldSave > 0 {
			pinned[[2]string{pool, string(k.Because)}] += monthly(k.WouldSave)
		}
		if k.Because == disrupt.BudgetExhausted {
			blocked[k.Detail+"\x00"+pool] = k
		}
		if k.Because == disrupt.ScoreTooLow {
			r.metrics.ConsolidationMoves.WithLabelValues(rejected, pool, r.policyOf(pool)).Inc()
		}
		r.kept(node, k, v.now)
	}
	r.eligible(in, moves)
	r.metrics.BlockedCost.Reset()
	for key, cost := range pinned {
		r.metrics.BlockedCost.WithLabelValues(key[0], key[1]).Set(cents(cost))
	}
	for _, key := range slices.Sorted(maps.Keys(blocked)) {
		text, pool, _ := strings.Cut(key, "\x00")
		if p := r.mirror.Pool(pool); p != nil {
			r.events.Publish(events.Event{About: p, Reason: "DisruptionBlocked", Every: time.Minute, Message: text, Annotations: factsData(blocked[key].Facts)})
		}
	}
	r.budgets(in, v)
}

// invalidAnnotations publishes an event on each pod whose do-not-disrupt annotation is invalid:
// the annotation does not protect the pod.
func (r *reporter) invalidAnnotations() {
	for _, p := range r.mirror.InvalidDoNotDisrupt() {
		r.events.Publish(events.Event{About: p, Warning: true, Reason: "InvalidDoNotDisruptAnnotation", Every: repeatKept,
			Message: fmt.Sprintf("Invalid karpenter.sh/do-not-disrupt annotation: %v, ignoring annotation", kube.InvalidDoNotDisrupt(p))})
	}
}

// kept publishes on a node why it is kept and what that costs.
func (r *reporter) kept(node kube.ManagedNode, k disrupt.Kept, now time.Time) {
	name := disrupt.Event(k.Because)
	if name == "" || deletedOrDeleting(node) || node.InSnapshot.MarkedForDeletion || lapsesSoon(k, now) {
		return
	}
	text := k.Detail
	if cents(monthly(k.WouldSave)) > 0 {
		text += fmt.Sprintf(" (costs $%.2f a month)", monthly(k.WouldSave))
	}
	for _, event := range about(node, events.Event{Reason: name, Message: text, Key: string(k.Because), Every: repeatKept, Annotations: factsData(k.Facts)}) {
		r.events.Publish(event)
	}
}

// lapsesSoon reports whether the reason lapses before it would be repeated.
func lapsesSoon(k disrupt.Kept, now time.Time) bool {
	return k.Because == disrupt.RecentlyLaunched && k.Until.Before(now.Add(repeatKept))
}

func factsData(facts reason.Facts) map[string]string {
	if len(facts) == 0 {
		return nil
	}
	text, err := json.Marshal(facts)
	if err != nil || len(text) > 8<<10 {
		return nil // the message has the most important part of it
	}
	return map[string]string{kube.FactsAnnotation: string(text)}
}

// eligible shows how many nodes may be disrupted for each cause, by their own and their NodePools'
// settings. Whether that would save anything is another question. Nodes of moves in progress are
// included.
func (r *reporter) eligible(in disrupt.Input, moves []*move) {
	pools := map[string]*disrupt.Pool{}
	for i := range in.Pools {
		pools[in.Pools[i].Name] = &in.Pools[i]
	}
	nodes := map[disrupt.Cause]int{}
	for _, m := range moves {
		nodes[m.Cause] += len(m.Nodes)
	}
	for _, cause := range []disrupt.Cause{disrupt.Empty, disrupt.Drifted, disrupt.Expired, disrupt.Underutilized} {
		for i := range in.Nodes {
			n := &in.Nodes[i]
			if _, may := disrupt.Eligible(n, pools[n.Pool], cause, &in); may {
				nodes[cause]++
			}
		}
		r.metrics.DisruptionEligible.WithLabelValues(strings.ToLower(string(cause))).Set(float64(nodes[cause]))
	}
}

// budgets shows how many nodes budgets allow to disrupt, for each cause that has budgets.
func (r *reporter) budgets(in disrupt.Input, v *view) {
	counts := disrupt.CountNodes(&in)
	r.metrics.AllowedDisruptions.Reset() // deleted NodePools have none
	r.metrics.ConsumingBudgets.Reset()
	for name, pool := range v.pools {
		for _, cause := range []disrupt.Cause{disrupt.Empty, disrupt.Drifted, disrupt.Underutilized} {
			allowed, _ := disrupt.AllowedDisruptions(&pool, counts[name], cause)
			r.metrics.AllowedDisruptions.WithLabelValues(name, string(cause)).Set(float64(allowed))
			r.metrics.ConsumingBudgets.WithLabelValues(name, string(cause)).Set(float64(counts[name].Down))
		}
	}
}
