// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"fmt"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// Reasons why a node is kept although the node itself may be disrupted. Values are part of
// karve's API: never renamed, never reused.
const (
	ReceivesPods           reason.Reason = "ReceivesPods"           // pods of other nodes are to move there
	NeededByOtherMove      reason.Reason = "NeededByOtherMove"      // placements of other moves depend on its pods
	PodsDoNotFit           reason.Reason = "PodsDoNotFit"           // some of its pods fit nowhere else
	NotCheaper             reason.Reason = "NotCheaper"             // its cheapest replacement costs as much
	SpotToSpot             reason.Reason = "SpotToSpot"             // spot is not replaced by spot, or not with so few types
	ReplacementUnavailable reason.Reason = "ReplacementUnavailable" // its static pool can launch no node now
	DecisionChanged        reason.Reason = "DecisionChanged"        // the decision would be different now
)

// explainOthers sets the reason of the nodes that have none.
func (s *nodes) explainOthers() {
	for _, n := range s.all {
		switch {
		case n.role != noMove || n.kept.Because != "":
		case n.info == nil || n.info.MarkedForDeletion:
			n.keep(Kept{Because: MarkedForDeletion, Detail: "Node is deleting or marked for deletion"})
		default:
			n.keep(Kept{Because: NotCheaper, Detail: "Can't replace with a cheaper node"})
		}
	}
}

// podsUnplaced says which pods the draft does not place. A plan that honours their preferences may
// by chance place each of them, but a move must not depend on preferences.
func podsUnplaced(d *schedule.Draft) Kept {
	if all := d.Plan().Unplaced; len(all) > 0 {
		return podsDoNotFit(all)
	}
	return somePodsUnplaced(d)
}

// somePodsUnplaced says how many pods the draft does not place.
func somePodsUnplaced(d *schedule.Draft) Kept {
	return Kept{Because: PodsDoNotFit, Detail: fmt.Sprintf("Not all pods would schedule: %d would not", d.Unplaced()),
		Facts: reason.FactsOf(map[string]any{"pods": d.Unplaced()})}
}

// podsDoNotFit says which pods would fit nowhere else.
func podsDoNotFit(classes []schedule.Unplaced) Kept {
	u := classes[0]
	n := 0
	for _, all := range classes {
		n += len(all.Pods)
	}
	why := string(u.Because)
	if u.Detail != "" {
		why += ": " + u.Detail
	}
	pod := u.Pods[0].Namespace + "/" + u.Pods[0].Name
	return Kept{Because: PodsDoNotFit, Detail: fmt.Sprintf("Not all pods would schedule: %d would not, %s among them (%s)", n, pod, why),
		Facts: reason.FactsOf(map[string]any{"pod": pod, "pods": n, "because": string(u.Because)})}
}

// replacementCostsMore says by how much the cheapest replacement is too expensive, exactly or at
// least.
func replacementCostsMore(n *node, by offering.Price, exactly bool) Kept {
	words := fmt.Sprintf("more than $%s/h more than it", by)
	switch {
	case exactly && by == 0:
		words = "as much as it"
	case exactly:
		words = fmt.Sprintf("$%s/h more than it", by)
	}
	return Kept{Because: NotCheaper, Detail: "Can't replace with a cheaper node: the cheapest replacement costs " + words,
		Facts: reason.FactsOf(map[string]any{"price": n.price.String(), "more": by.String()})}
}

// noReplacementSaves says that no replacement saves as much as is required.
func noReplacementSaves(n *node) Kept {
	return Kept{Because: NotCheaper, Detail: "Can't replace with a cheaper node: no replacement saves as much as a replacement must",
		Facts: reason.FactsOf(map[string]any{"price": n.price.String()})}
}

// wastesTooLittle says that the node wastes less than a replacement must save.
func wastesTooLittle(n *node) Kept {
	return Kept{Because: NotCheaper, Detail: fmt.Sprintf("Can't replace with a cheaper node: even at the best prices its pods need $%s/h of the $%s/h that it costs", n.price-n.waste, n.price),
		Facts: reason.FactsOf(map[string]any{"price": n.price.String(), "needs": (n.price - n.waste).String()})}
}

// savingsTooSmall says that a replacement would save less than is required.
func savingsTooSmall(n *node, saves, required offering.Price) Kept {
	return Kept{Because: SavingsTooSmall, WouldSave: saves,
		Detail: fmt.Sprintf("Can't replace with a cheaper node: the cheapest replacement saves $%s/h, less than the $%s/h that a replacement must save", saves, required),
		Facts:  reason.FactsOf(map[string]any{"price": n.price.String(), "saves": saves.String(), "least": required.String()})}
}

// shortLivedPods says that moving the node's pods would pay if they were expected to stay; saving says in
// words how much would be saved.
func shortLivedPods(n *node, saving string, saves offering.Price) Kept {
	stay := n.ShortestStay.Truncate(time.Second)
	return Kept{Because: ShortLivedPods, WouldSave: saves,
		Detail: fmt.Sprintf("Its pods may leave by themselves before moving them pays: %s may be expected to stay for another %s, and %s would be saved", n.ShortestStayPod, stay, saving),
		Facts:  reason.FactsOf(map[string]any{"saves": saves.String(), "pod": n.ShortestStayPod, "stays": int64(stay / time.Second)})}
}

// scoreTooLow says that a Balanced pool would gain too little.
func scoreTooLow(n *node) Kept {
	return Kept{Because: ScoreTooLow, Detail: fmt.Sprintf("The node costs too little for the pods that would be evicted, by the Balanced policy of NodePool %q", n.Pool)}
}
