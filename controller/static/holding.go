// SPDX-License-Identifier: Apache-2.0

package static

import (
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// holding is what a pool has.
type holding struct {
	// staying are the claims that will be there when all moves under way have ended:
	// neither on their way out nor to be replaced; replacements are among them.
	staying []karpv1.NodeClaim
	// expected counts the replacements that moves under way have yet to create. They
	// are bought by whoever moves, and use up limits.nodes already.
	expected int64
	// all counts those on their way out too: limits do.
	all int64
}

// holdingOf sorts a pool's claims. What takes part in a move says so on itself, so
// this is right whoever leads.
func holdingOf(claims []karpv1.NodeClaim) holding {
	h := holding{all: int64(len(claims))}
	promised, created := map[string]int{}, map[string]int{} // replacements, by move
	for i := range claims {
		c := &claims[i]
		if c.DeletionTimestamp != nil {
			continue
		}
		// A mark that cannot be read moves nothing: better keep such a node than buy another.
		if mark, moving, err := kube.MoveOf(c); moving && err == nil {
			promised[mark.ID] = mark.Replacements
			continue
		}
		created[c.Annotations[kube.ReplacesAnnotation]]++
		h.staying = append(h.staying, *c)
	}
	for id, n := range promised {
		h.expected += int64(max(0, n-created[id]))
	}
	return h
}
