// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/kube"
)

// activity is when a pod was last bound to a node or left it, by node name. Pods may outlive
// their Node for a while: the entry is deleted with the last of both.
type activity map[string]time.Time

// record records the time for the node when a pod other than a DaemonSet's is bound to it,
// finishes, begins to terminate or is deleted. Either pod may be nil.
func (a activity) record(old, now *corev1.Pod) {
	either := now
	if either == nil {
		either = old
	}
	if either.Spec.NodeName == "" || kube.OwnedByDaemonSet(either) || kube.OwnedByNode(either) {
		return
	}
	if phaseOfStay(old) != phaseOfStay(now) {
		a[either.Spec.NodeName] = time.Now()
	}
}

// phaseOfStay orders the phases of a pod on its node: not bound, bound, terminating, finished
// or deleted.
func phaseOfStay(p *corev1.Pod) int {
	switch {
	case p == nil:
		return 3
	case p.Spec.NodeName == "":
		return 0
	case kube.Terminal(p):
		return 3
	case p.DeletionTimestamp != nil:
		return 2
	}
	return 1
}

// recall copies the times of an old store.
func (a activity) recall(old activity) { maps.Copy(a, old) }

// keep forgets the nodes that do not exist.
func (a activity) keep(exists func(node string) bool) {
	maps.DeleteFunc(a, func(node string, _ time.Time) bool { return !exists(node) })
}
