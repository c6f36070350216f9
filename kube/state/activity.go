// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"time"
)

// activity is when a pod was last bound to a node or left it, by node name. Pods may outlive
// their Node for a while: the entry is deleted with the last of both.
type activity map[string]time.Time

// record records the time for the node when a pod other than a DaemonSet's is bound to it,
// finishes, begins to terminate or is deleted. Either pod may be nil.
func (a activity) record(old, now *knownPod) {
	either := now
	if either == nil {
		either = old
	}
	if either.Spec.NodeName == "" || phaseOnNode(old) == phaseOnNode(now) {
		return
	}
	if either.facts.DaemonSet == "" && !either.facts.OwnedByNode {
		a[either.Spec.NodeName] = time.Now()
	}
}

// phaseOnNode orders the phases of a pod on its node: not bound, bound, terminating, finished
// or deleted.
func phaseOnNode(p *knownPod) int {
	switch {
	case p == nil:
		return 3
	case p.Spec.NodeName == "":
		return 0
	case p.facts.Terminal:
		return 3
	case p.facts.Terminating:
		return 2
	}
	return 1
}

// copyFrom copies the times of an old store.
func (a activity) copyFrom(old activity) { maps.Copy(a, old) }

// dropDeleted forgets the nodes that do not exist.
func (a activity) dropDeleted(exists func(node string) bool) {
	maps.DeleteFunc(a, func(node string, _ time.Time) bool { return !exists(node) })
}
