// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/scenario"
)

// TestPodsComeAndGo: a pod that waits is bound without counting as evicted, one that ends leaves
// room, and a claim is Consolidatable once its node has been quiet.
func TestPodsComeAndGo(t *testing.T) {
	f := open(t, cluster(t))
	f.Now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	before := len(f.Pods)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "new", Labels: map[string]string{"app": "new"}}}
	budget := &policyv1.PodDisruptionBudget{}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: p.Labels}
	if d := f.Arrive([]*corev1.Pod{p}, []*policyv1.PodDisruptionBudget{budget}); len(d.Arrived) != 1 || len(d.PDBs) != 1 || f.Waiting["new"] == nil {
		t.Fatalf("the pod does not wait: %+v", d)
	}
	instance := scenario.InstanceOf(f.Scenario.Nodes[0])
	d, err := f.Apply(Change{Launches: []Launch{{Instance: instance, Pods: []types.UID{"new"}}}})
	if err != nil {
		t.Fatal(err)
	}
	node := d.Nodes[0]
	if len(d.Bound) != 1 || d.Bound[0].Spec.NodeName != node.Name || d.Bound[0].Status.Phase != corev1.PodRunning || f.Evictions != 0 || len(f.Waiting) != 0 {
		t.Errorf("bound %+v, %d evictions, %d wait", d.Bound, f.Evictions, len(f.Waiting))
	}
	if p.Spec.NodeName != "" || !node.CreationTimestamp.Time.Equal(f.Now) || !d.Claims[0].CreationTimestamp.Time.Equal(f.Now) {
		t.Errorf("the pod that came is changed (%q), or the node is of %v", p.Spec.NodeName, node.CreationTimestamp)
	}
	if _, err := f.Apply(Change{Gone: []string{node.Name}}); err == nil {
		t.Error("a node is removed although a budget lets its pod not go")
	}

	f = open(t, cluster(t))
	f.Now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	f.Arrive([]*corev1.Pod{p}, nil)
	on := f.Scenario.Nodes[0].Name
	if _, err := f.Apply(Change{Receivers: map[string][]types.UID{on: {"new"}}}); err != nil {
		t.Fatal(err)
	}
	consolidatable := func() bool { return f.Claims[on].StatusConditions().Get(karpv1.ConditionTypeConsolidatable).IsTrue() }
	f.Settle(time.Minute)
	if consolidatable() || !f.Claims[on].Status.LastPodEventTime.Time.Equal(f.Now) {
		t.Errorf("a pod has just come: Consolidatable %v, last pod event %v", consolidatable(), f.Claims[on].Status.LastPodEventTime)
	}
	f.Now = f.Now.Add(time.Minute)
	if d := f.Settle(time.Minute); len(d.Settled) != 1 || !consolidatable() {
		t.Errorf("after a quiet minute: %d claims, Consolidatable %v", len(d.Settled), consolidatable())
	}
	if d := f.End([]types.UID{"new"}, nil); len(d.Ended) != 1 || len(f.Pods) != before {
		t.Errorf("%d ended, %d pods of %d", len(d.Ended), len(f.Pods), before)
	}
	if d := f.Settle(0); len(d.Settled) != 1 || !consolidatable() {
		t.Errorf("consolidateAfter of 0: %d claims, Consolidatable %v", len(d.Settled), consolidatable())
	}
	if d := f.Settle(0); len(d.Settled) != 0 {
		t.Errorf("nothing happened, and %d claims changed", len(d.Settled))
	}
}
