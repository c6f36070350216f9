// SPDX-License-Identifier: Apache-2.0

package static

import (
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/kube"
)

// poolClaims is the NodeClaims of a pool.
type poolClaims struct {
	// staying are the claims that will be there when all moves under way have ended:
	// neither on their way out nor to be replaced; replacements are among them.
	staying []karpv1.NodeClaim
	// expected counts the replacements that moves under way have yet to create. The disruption
	// controller launches them, and they use up limits.nodes already.
	expected int64
	// all includes claims that are being deleted: limits do.
	all int64
}

// poolClaimsOf sorts a pool's claims. Annotations on the claims record moves, so
// this is right for every leader.
func poolClaimsOf(claims []karpv1.NodeClaim) poolClaims {
	p := poolClaims{all: int64(len(claims))}
	promised, created := map[string]int{}, map[string]int{} // replacements, by move
	for i := range claims {
		c := &claims[i]
		if c.DeletionTimestamp != nil {
			continue
		}
		// A mark that cannot be read counts as no move: better keep such a node than launch
		// another.
		if mark, moving, err := kube.MoveOf(c); moving && err == nil {
			promised[mark.ID] = mark.Replacements
			continue
		}
		created[c.Annotations[kube.ReplacesAnnotation]]++
		p.staying = append(p.staying, *c)
	}
	for id, n := range promised {
		p.expected += int64(max(0, n-created[id]))
	}
	return p
}
