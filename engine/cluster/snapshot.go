// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/quantity"
)

// Snapshot is the compiled input of a decision, made from the types in spec.go. It belongs to
// its Builder and is valid until the Builder changes. Decisions memoise in it, so only one
// decision may run at a time.
type Snapshot struct {
	Interner  *constraint.Interner
	Resources *quantity.Positions
	// PoolCatalogs are the pools with the offerings they can launch: weight descending, then name.
	PoolCatalogs []*PoolCatalog
	// Nodes are the nodes that take pods: initialized ones first, then by key. In a WhatIf some
	// of them may take no pods: their Index is negative.
	Nodes []*NodeInfo
	// NodesTakingNoPods are the nodes that are not marked for deletion but take no pods:
	// their labels and pods still count for spread constraints and affinity terms of other
	// pods. In a WhatIf they include the nodes that it removed, which are marked for deletion:
	// only the labels of those count.
	NodesTakingNoPods []*NodeInfo
	// Classes are the pod classes with pods to be placed: pending pods, and reschedulable pods of
	// nodes marked for deletion. Virtual classes are last. Otherwise priority descends, then size
	// (see sizeOf); ties go by key.
	Classes []*PodClass
	// QuotaLeft is the remaining amount of each quota, less what nodes use that the cloud does
	// not count yet. A quota that is not listed is not limited.
	QuotaLeft map[string]int64
	// AntiAffinityTerms are the required anti-affinity terms of all pods, including running
	// pods.
	AntiAffinityTerms []*AntiAffinityTerm
	Settings          Settings

	// The Builder's parts: a WhatIf changes what they keep, and takes it back.
	podStore   *podStore
	podClasses *podClasses
	nodeStore  *nodeStore
	whatIf     *WhatIf // the WhatIf that supposes this state; nil for the actual one
}

// PodsToPlace counts the pods to be placed.
func (s *Snapshot) PodsToPlace() int {
	n := 0
	for _, c := range s.Classes {
		n += len(c.PodsToPlace)
	}
	return n
}

// PoolCatalogOf is the catalog of the NodePool with that name; nil when there is none.
func (s *Snapshot) PoolCatalogOf(pool string) *PoolCatalog {
	for _, c := range s.PoolCatalogs {
		if c.Pool.Name == pool {
			return c
		}
	}
	return nil
}

// NodeByKey is the node with that key, even if it is marked for deletion; nil when there is none.
func (s *Snapshot) NodeByKey(key string) *NodeInfo { return s.nodeStore.byKey[key] }

// NodeIndex returns the index over the keys, in any order; the hostname is left out.
func (s *Snapshot) NodeIndex(keys []*constraint.Key) *NodeIndex {
	return s.nodeStore.indexes.over(s.Nodes, keys, s.Resources.Len())
}
