package judge

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/world"
)

// Standing asks of each of the moved pods whether the scheduler would put it where it
// runs if it came last. That is the right question of a cluster whose pods moved one
// after the other as long as rules about spread are about a workload's own pods: such
// a rule that held when the pod came still holds, for those that came later went
// where there were fewest.
func Standing(nodes map[string]*corev1.Node, pods map[types.UID]*corev1.Pod, moved map[types.UID]bool) []Rejection {
	s := newScheduler([]runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceDefault}}})
	defer s.close()
	for _, n := range nodes {
		s.addNode(n)
	}
	for uid, p := range pods {
		s.pods[string(uid)] = p
		must(s.cache.AddPod(s.logger, p), "binding pod "+p.Name)
	}
	var out []Rejection
	for uid := range moved {
		p := pods[uid]
		must(s.cache.RemovePod(s.logger, p), "removing pod "+p.Name)
		if no := s.refuses(p, p.Spec.NodeName); no != nil {
			ref := world.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(uid)}
			out = append(out, Rejection{Pod: ref, Node: p.Spec.NodeName, Plugin: no.plugin, Reason: no.reason})
		}
		must(s.cache.AddPod(s.logger, p), "binding pod "+p.Name)
	}
	return out
}
