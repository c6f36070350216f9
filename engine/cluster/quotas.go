// SPDX-License-Identifier: Apache-2.0

package cluster

// quotas keeps what remains of the region's quotas.
type quotas struct {
	remaining map[string]map[string]int64 // by node class, as the cloud reports it
	// uncounted are the nodes that use quota which the cloud does not count yet.
	uncounted map[*NodeInfo]bool
}

func newQuotas() quotas {
	return quotas{remaining: map[string]map[string]int64{}, uncounted: map[*NodeInfo]bool{}}
}

func (q *quotas) set(nodeClass string, remaining map[string]int64) {
	q.remaining[nodeClass] = remaining
}

func (q *quotas) remove(nodeClass string) { delete(q.remaining, nodeClass) }

func (q *quotas) addNode(node *NodeInfo) {
	if len(node.QuotaUses) > 0 {
		q.uncounted[node] = true
	}
}

func (q *quotas) removeNode(node *NodeInfo) { delete(q.uncounted, node) }

// left returns the remaining quotas: what the cloud reports, minus the use of nodes that the
// cloud does not count yet. Node classes share the subscription's quotas; where two disagree,
// the smaller value counts.
func (q *quotas) left() map[string]int64 {
	left := map[string]int64{}
	for _, remaining := range q.remaining {
		for name, n := range remaining {
			if least, ok := left[name]; !ok || n < least {
				left[name] = n
			}
		}
	}
	for node := range q.uncounted {
		for _, use := range node.QuotaUses {
			if _, ok := left[use.Quota]; ok {
				left[use.Quota] -= use.Amount
			}
		}
	}
	return left
}
