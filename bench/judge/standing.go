// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/karve-dev/karve/engine/cluster"
)

// Standing asks of each of the moved pods whether the scheduler would put it where it
// runs if it came last. That is the right question of a cluster whose pods moved one
// after the other as long as rules about spread are about a workload's own pods: such
// a rule that held when the pod came still holds, for those that came later went
// where there were fewest.
func Standing(nodes map[string]*corev1.Node, pods map[types.UID]*corev1.Pod, moved map[types.UID]bool) []Rejection {
	s := newScheduler(defaultNamespace())
	defer s.Close()
	for _, n := range nodes {
		s.AddNode(n)
	}
	for uid, p := range pods {
		s.pods[uid] = p
		must(s.cache.AddPod(s.logger, p), "binding pod "+p.Name)
	}
	var asked []*corev1.Pod
	for uid := range moved {
		asked = append(asked, pods[uid])
	}
	return s.standing(asked)
}

func (s *Scheduler) standing(pods []*corev1.Pod) []Rejection {
	must(s.cache.UpdateSnapshot(s.logger, s.snapshot), "taking a snapshot")
	prepared := map[types.UID]prefilter{}
	var out []Rejection
	for _, p := range pods {
		before, ok := prepared[workload(p)]
		if !ok {
			before = s.prefilter(p)
			prepared[workload(p)] = before
		}
		if no := s.refusesAgain(p, before); no != nil {
			ref := cluster.PodRef{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
			out = append(out, Rejection{Pod: ref, Node: p.Spec.NodeName, Plugin: no.Plugin, Reason: no.Reason})
		}
	}
	return out
}

// workload is the same for pods of one template.
func workload(p *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(p); owner != nil {
		return owner.UID
	}
	return p.UID
}

// prefilter is what the filters know before they look at a node: the same for all pods
// of a workload, so that a cluster of thousands of nodes is counted once for each.
type prefilter struct {
	state fwk.CycleState
	no    *Refusal
}

func (s *Scheduler) prefilter(p *corev1.Pod) prefilter {
	state := framework.NewCycleState()
	_, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, p)
	if !status.IsSuccess() {
		return prefilter{no: &Refusal{status.Plugin(), strings.Join(status.Reasons(), "; ")}}
	}
	return prefilter{state: state}
}

// refusesAgain takes a bound pod off its node, as preemption supposes it, and asks
// whether it may come back; nil means accepted.
func (s *Scheduler) refusesAgain(p *corev1.Pod, before prefilter) *Refusal {
	if before.no != nil {
		return before.no
	}
	info, err := s.snapshot.Get(p.Spec.NodeName)
	if err != nil {
		return &Refusal{Plan, err.Error()}
	}
	without, state := info.Snapshot(), before.state.Clone()
	must(without.RemovePod(s.logger, p), "taking pod "+p.Name+" off its node")
	itself, err := framework.NewPodInfo(p)
	must(err, "reading pod "+p.Name)
	status := s.framework.RunPreFilterExtensionRemovePod(s.ctx, state, p, itself, without)
	if status.IsSuccess() {
		status = s.framework.RunFilterPlugins(s.ctx, state, p, without)
	}
	if status.IsSuccess() {
		return nil
	}
	return &Refusal{status.Plugin(), strings.Join(status.Reasons(), "; ")}
}
