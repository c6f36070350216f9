// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// A pod with a label that no pod had before costs no look at the others: neither the label alone, nor
// a selector of the pod's for it. Only a selector for a label that others have does, and once.
func TestNewLabelLeavesOtherPodsAlone(t *testing.T) {
	const pods = 1000
	b := cluster.NewBuilder()
	pod := func(name string, labels map[string]string, selects ...string) {
		p := cluster.Pod{PodRef: cluster.PodRef{Namespace: "default", Name: name, UID: name}, Labels: labels}
		for _, label := range selects {
			p.AntiAffinity = append(p.AntiAffinity, cluster.PodAffinityTerm{Key: cluster.LabelHostname, Selector: cluster.Selector{
				Namespaces: []string{"default"}, Labels: []constraint.Rule{{Key: label, Operator: constraint.Exists}},
			}})
		}
		b.SetPod(p)
	}
	for i := range pods {
		pod(fmt.Sprint("p", i), map[string]string{"app": fmt.Sprint(i % 10), "hash": fmt.Sprint(i)})
	}
	for _, step := range []struct {
		name  string
		do    func()
		looks int
	}{
		{"a label alone", func() { pod("a", map[string]string{"new-1": "x"}) }, 0},
		{"a selector for a label of its own", func() { pod("b", map[string]string{"new-2": "x"}, "new-2") }, 0},
		{"a selector for a label that no pod has", func() { pod("c", nil, "new-3") }, 0},
		{"a selector for a label that others have", func() { pod("d", nil, "hash") }, pods + 3},
		{"another for the same", func() { pod("e", map[string]string{"hash": "e"}, "hash") }, 0},
	} {
		before := b.LookedAt()
		step.do()
		if got := b.LookedAt() - before; got != step.looks {
			t.Errorf("%s: looked at %d pods, want %d", step.name, got, step.looks)
		}
	}
}
