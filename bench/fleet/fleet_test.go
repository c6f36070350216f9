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
	s, err := scenario.Consolidate(t.Context(), scenario.Shrunk{Nodes: 10, Seed: 1, Budget: "100%"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// guests are the pods of a node that must move when it goes.
func (f *Fleet) guests(node string) (out []types.UID) {
	for uid := range f.on[node] {
		if !kube.OwnedByDaemonSet(f.Pods[uid]) {
			out = append(out, uid)
		}
	}
	return out
}

// free finds a node that may go, and one that must not.
func (f *Fleet) free(t *testing.T) (may, mustNot string) {
	t.Helper()
	for _, n := range f.Scenario.Nodes {
		pinned := false
		for _, uid := range f.guests(n.Name) {
			pinned = pinned || f.pinned[uid] != ""
		}
		if pinned {
			mustNot = n.Name
		} else if len(f.guests(n.Name)) > 0 {
			may = n.Name
		}
	}
	if may == "" || mustNot == "" {
		t.Fatalf("the cluster has no node of each kind: %q, %q", may, mustNot)
	}
	return may, mustNot
}

func TestReplacingANode(t *testing.T) {
	f := open(t, cluster(t))
	may, _ := f.free(t)
	guests, before, price := f.guests(may), len(f.Pods), f.Price()
	machine := scenario.Bought(f.Nodes[may])
	d, err := f.Apply(Change{Gone: []string{may}, Launches: []Launch{{Machine: machine, Pods: guests}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Gone) != 1 || len(d.Lapsed) != 1 || len(d.Nodes) != 1 || len(d.Moved) != len(guests) || len(d.Ended) != len(d.Started) {
		t.Errorf("delta %d gone, %d new, %d moved, %d ended, %d started", len(d.Gone), len(d.Nodes), len(d.Moved), len(d.Ended), len(d.Started))
	}
	if f.Nodes[may] != nil || len(f.Nodes) != 10 || f.Evictions != len(guests) || f.Bought != 1 || len(f.Pods) != before {
		t.Errorf("%d nodes, %d evictions, %d bought, %d pods of %d", len(f.Nodes), f.Evictions, f.Bought, len(f.Pods), before)
	}
	if f.Price() != price {
		t.Errorf("the same machine again changes the price from %v to %v", price, f.Price())
	}
	if wrong := judge.Standing(f.Nodes, f.Pods, f.Moved); len(wrong) > 0 {
		t.Errorf("a machine like the one before: %v", wrong)
	}
}

func TestChangesThatCannotBe(t *testing.T) {
	s := cluster(t)
	may, mustNot := open(t, s).free(t)
	everybody := func(f *Fleet, to string) map[string][]types.UID { return map[string][]types.UID{to: f.guests(may)} }
	for want, change := range map[string]func(*Fleet) Change{
		"have no home":    func(*Fleet) Change { return Change{Gone: []string{may}} },
		"must not go":     func(*Fleet) Change { return Change{Gone: []string{mustNot}} },
		"gone already":    func(*Fleet) Change { return Change{Gone: []string{"nobody"}} },
		"there is no":     func(f *Fleet) Change { return Change{Gone: []string{may}, Homes: everybody(f, may)} },
		"needs no home":   func(f *Fleet) Change { return Change{Homes: everybody(f, mustNot)} },
		"nobody sells X2": func(*Fleet) Change { return Change{Launches: []Launch{{Machine: scenario.Machine{Type: "X2"}}}} },
	} {
		f := open(t, s)
		if _, err := f.Apply(change(f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The judge must see what Apply does not look at: a node that has no room.
func TestNobodyFitsEverywhere(t *testing.T) {
	s := cluster(t)
	f := open(t, s)
	may, _ := f.free(t)
	small := scenario.Machine{Pool: scenario.Bought(f.Nodes[may]).Pool, Type: "Standard_D2s_v5", Zone: f.Nodes[may].Labels[corev1.LabelTopologyZone], CapacityType: scenario.Bought(f.Nodes[may]).CapacityType}
	for _, n := range s.Nodes { // one machine for everybody who may move
		if uids := f.guests(n.Name); n.Name != may && !f.pins(uids) && scenario.Bought(n).Pool == small.Pool {
			if _, err := f.Apply(Change{Gone: []string{n.Name}, Homes: map[string][]types.UID{may: uids}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := f.Apply(Change{Gone: []string{may}, Launches: []Launch{{Machine: small, Pods: f.guests(may)}}}); err != nil {
		t.Fatal(err)
	}
	wrong := judge.Standing(f.Nodes, f.Pods, f.Moved)
	if len(wrong) == 0 {
		t.Fatalf("%d pods on two cores, and the judge says nothing", len(f.Moved))
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
