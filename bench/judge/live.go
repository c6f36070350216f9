// SPDX-License-Identifier: Apache-2.0

package judge

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Live is the scheduler over a cluster that changes for days. It binds what it is told, and says
// afterwards what it would not have bound.
type Live struct{ scheduler *Scheduler }

// NewLive is an empty cluster. The caller closes it.
func NewLive() *Live { return &Live{newScheduler(defaultNamespace())} }

func defaultNamespace() []runtime.Object {
	return []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceDefault}}}
}

// Close ends what the scheduler runs in the background.
func (l *Live) Close() { l.scheduler.Close() }

// AddNode adds a node.
func (l *Live) AddNode(n *corev1.Node) { l.scheduler.AddNode(n) }

// RemoveNode removes a node that has no pods any more.
func (l *Live) RemoveNode(n *corev1.Node) {
	must(l.scheduler.cache.RemoveNode(l.scheduler.logger, l.scheduler.nodes[n.Name]), "removing node "+n.Name)
	delete(l.scheduler.nodes, n.Name)
}

// Remove takes a pod off its node.
func (l *Live) Remove(pod types.UID) { l.scheduler.remove(pod) }

// Bind puts pods on the nodes that they name.
func (l *Live) Bind(pods []*corev1.Pod) {
	for _, p := range pods {
		must(l.scheduler.cache.AddPod(l.scheduler.logger, p), "binding pod "+p.Name)
		l.scheduler.pods[p.UID] = p
	}
}

// Standing is what Standing says of these bound pods.
func (l *Live) Standing(pods []*corev1.Pod) []Rejection { return l.scheduler.standing(pods) }
