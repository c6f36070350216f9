// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"cmp"
	"time"
)

// CompareDue orders nodes that are due for that cause: empty nodes first, then by how long they
// are due, longest first, then by key.
func CompareDue(a, b *Node, cause Cause) int {
	return cmp.Or(
		cmp.Compare(min(a.Pods, 1), min(b.Pods, 1)),
		a.dueSince(cause).Compare(b.dueSince(cause)),
		cmp.Compare(a.Key, b.Key),
	)
}

// dueSince is when the node became due for that cause; zero when it is not due.
func (n *Node) dueSince(cause Cause) (since time.Time) {
	for _, d := range n.Due {
		if d.Cause == cause && (since.IsZero() || d.Since.Before(since)) {
			since = d.Since
		}
	}
	return since
}
