// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Arrive adds pods that wait to be placed, with the budgets that select them.
func (f *Fleet) Arrive(pods []*corev1.Pod, budgets []*policyv1.PodDisruptionBudget) Delta {
	for _, p := range pods {
		f.Waiting[p.UID] = p
	}
	f.pin(pods, budgets)
	return Delta{Arrived: pods, PDBs: budgets}
}

// End ends pods by themselves, whether they run or wait, and deletes budgets.
func (f *Fleet) End(uids []types.UID, budgets []*policyv1.PodDisruptionBudget) Delta {
	d := Delta{GonePDBs: budgets}
	for _, uid := range uids {
		p := f.Waiting[uid]
		if p == nil {
			p = f.Pods[uid]
			delete(f.on[p.Spec.NodeName], uid)
			f.events[p.Spec.NodeName] = f.Now
		}
		delete(f.Waiting, uid)
		delete(f.Pods, uid)
		delete(f.pinned, uid)
		delete(f.Moved, uid)
		d.Ended = append(d.Ended, p)
	}
	return d
}

// Settle writes on the claims what Karpenter's controllers would by now: when a pod last came
// or went, and the condition Consolidatable once that is as long ago as the NodePools ask for.
func (f *Fleet) Settle(after time.Duration) Delta {
	var d Delta
	for _, name := range slices.Sorted(maps.Keys(f.events)) {
		last := f.events[name]
		quiet := f.Now.Sub(last) >= after
		claim := f.Claims[name].DeepCopy()
		claim.Status.LastPodEventTime = metav1.NewTime(last)
		if quiet {
			claim.StatusConditions().SetTrue(karpv1.ConditionTypeConsolidatable)
			delete(f.events, name)
		} else {
			_ = claim.StatusConditions().Clear(karpv1.ConditionTypeConsolidatable) // it is not one of the conditions that must stay
		}
		f.Claims[name] = claim
		d.Settled = append(d.Settled, claim)
	}
	return d
}

// stamp has the node and its claim created, initialized and ready now.
func (f *Fleet) stamp(n *corev1.Node, c *karpv1.NodeClaim) {
	if f.Now.IsZero() {
		return
	}
	now := metav1.NewTime(f.Now)
	n.CreationTimestamp, c.CreationTimestamp, c.Status.LastPodEventTime = now, now, now
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].LastTransitionTime = now
	}
	for i := range c.Status.Conditions {
		c.Status.Conditions[i].LastTransitionTime = now
	}
}
