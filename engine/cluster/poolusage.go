// SPDX-License-Identifier: Apache-2.0

package cluster

import "github.com/karve-dev/karve/engine/quantity"

// PoolUsage is what a NodePool's nodes and NodeClaims count against its limits. The zero value is
// that of a NodePool without any.
type PoolUsage struct {
	Nodes    int64
	Capacity quantity.Amounts
}

// Plus is the usage with one more node of that capacity.
func (u PoolUsage) Plus(capacity quantity.Amounts) PoolUsage {
	return PoolUsage{u.Nodes + 1, u.Capacity.Add(capacity)}
}

// Minus is the usage with one node of that capacity less.
func (u PoolUsage) Minus(capacity quantity.Amounts) PoolUsage {
	return PoolUsage{u.Nodes - 1, u.Capacity.Sub(capacity)}
}

// Exceeded returns the name of the first limit that the usage exceeds; "" when it keeps to all.
func (u PoolUsage) Exceeded(limits quantity.Amounts) string {
	for _, name := range limits.Names() {
		used := u.Capacity[name]
		if name == quantity.NameNodes {
			used = u.Nodes
		}
		if used > limits[name] {
			return name
		}
	}
	return ""
}
