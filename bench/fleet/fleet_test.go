// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/kube"
)

func open(t *testing.T, s *scenario.Scenario) *Fleet {
	t.Helper()
	f, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func cluster(t *testing.T) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Consolidate(t.Context(), scenario.Overprovisioned{Nodes: 10, Seed: 1, Budget: "100%"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// evicted are the pods of a node that removing it evicts.
func (f *Fleet) evicted(node string) (out []types.UID) {
	for uid := range f.on[node] {
		if !kube.OwnedByDaemonSet(f.Pods[uid]) {
			out = append(out, uid)
		}
	}
	return out
}

// removable finds a node that may be removed, and one that must not.
func (f *Fleet) removable(t *testing.T) (may, mustNot string) {
	t.Helper()
	for _, n := range f.Scenario.Nodes {
		pinned := false
		for _, uid := range f.evicted(n.Name) {
			pinned = pinned || f.pinned[uid] != ""
		}
		if pinned {
			mustNot = n.Name
		} else if len(f.evicted(n.Name)) > 0 {
			may = n.Name
		}
	}
	if may == "" || mustNot == "" {
		t.Fatalf("the cluster has no removable or no pinned node: %q, %q", may, mustNot)
	}
	return may, mustNot
}

func TestReplacingANode(t *testing.T) {
	f := open(t, cluster(t))
	may, _ := f.removable(t)
	evicted, before, price := f.evicted(may), len(f.Pods), f.Price()
	instance := scenario.InstanceOf(f.Nodes[may])
	d, err := f.Apply(Change{Gone: []string{may}, Launches: []Launch{{Instance: instance, Pods: evicted}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Gone) != 1 || len(d.GoneClaims) != 1 || len(d.Nodes) != 1 || len(d.Moved) != len(evicted) || len(d.Ended) != len(d.Started) {
		t.Errorf("delta %d gone, %d new, %d moved, %d ended, %d started", len(d.Gone), len(d.Nodes), len(d.Moved), len(d.Ended), len(d.Started))
	}
	if f.Nodes[may] != nil || len(f.Nodes) != 10 || f.Evictions != len(evicted) || f.Launched != 1 || len(f.Pods) != before {
		t.Errorf("%d nodes, %d evictions, %d launched, %d pods of %d", len(f.Nodes), f.Evictions, f.Launched, len(f.Pods), before)
	}
	if f.Price() != price {
		t.Errorf("replacing a node by the same instance changes the price from %v to %v", price, f.Price())
	}
	if wrong := judge.Standing(f.Nodes, f.Pods, f.Moved); len(wrong) > 0 {
		t.Errorf("replaced by the same instance: %v", wrong)
	}
}

func TestInvalidChangesAreRefused(t *testing.T) {
	s := cluster(t)
	may, mustNot := open(t, s).removable(t)
	allPods := func(f *Fleet, to string) map[string][]types.UID { return map[string][]types.UID{to: f.evicted(may)} }
	for want, change := range map[string]func(*Fleet) Change{
		"are not placed":      func(*Fleet) Change { return Change{Gone: []string{may}} },
		"must not be removed": func(*Fleet) Change { return Change{Gone: []string{mustNot}} },
		"removed before":      func(*Fleet) Change { return Change{Gone: []string{"missing"}} },
		"does not exist":      func(f *Fleet) Change { return Change{Gone: []string{may}, Receivers: allPods(f, may)} },
		"was not evicted":     func(f *Fleet) Change { return Change{Receivers: allPods(f, mustNot)} },
		"no offering of X2":   func(*Fleet) Change { return Change{Launches: []Launch{{Instance: scenario.Instance{Type: "X2"}}}} },
	} {
		f := open(t, s)
		if _, err := f.Apply(change(f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The judge must see an overfull node, which Apply does not check.
func TestOverfullNodesAreRejected(t *testing.T) {
	s := cluster(t)
	f := open(t, s)
	may, _ := f.removable(t)
	small := scenario.Instance{Pool: scenario.InstanceOf(f.Nodes[may]).Pool, Type: "Standard_D2s_v5", Zone: f.Nodes[may].Labels[corev1.LabelTopologyZone], CapacityType: scenario.InstanceOf(f.Nodes[may]).CapacityType}
	for _, n := range s.Nodes { // one node for all pods that may be evicted
		if uids := f.evicted(n.Name); n.Name != may && !f.pins(uids) && scenario.InstanceOf(n).Pool == small.Pool {
			if _, err := f.Apply(Change{Gone: []string{n.Name}, Receivers: map[string][]types.UID{may: uids}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := f.Apply(Change{Gone: []string{may}, Launches: []Launch{{Instance: small, Pods: f.evicted(may)}}}); err != nil {
		t.Fatal(err)
	}
	wrong := judge.Standing(f.Nodes, f.Pods, f.Moved)
	if len(wrong) == 0 {
		t.Fatalf("%d pods on two cores, and the judge accepts it", len(f.Moved))
	}
	t.Log(wrong[0])
}

func (f *Fleet) pins(uids []types.UID) bool {
	for _, uid := range uids {
		if f.pinned[uid] != "" {
			return true
		}
	}
	return false
}
