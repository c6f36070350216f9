package static

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/world"
	"github.com/karve-dev/karve/kube"
)

func sell(name string, cores int64, price offer.Price) offer.Type {
	return offer.Type{
		Name: name, Capacity: quantity.Amounts{"cpu": cores * 1000, "memory": 1 << 30, "pods": 10},
		Offers: []offer.Offer{{Zone: "1", CapacityType: offer.OnDemand, Price: price, Draws: []offer.Draw{{Budget: "cores", Amount: cores}}}},
	}
}

func market(t *testing.T, p world.Pool) *world.World {
	t.Helper()
	b := world.NewBuilder()
	gone := sell("free", 1, 0)
	gone.Offers[0].Unavailable = "sold out"
	b.SetCatalog("", []offer.Type{sell("D8", 8, 4e8), sell("D4", 4, 2e8), sell("tiny", 1, 1e8), gone}, map[string]int64{"cores": 13})
	b.SetDaemon(world.Daemon{Ref: world.Ref{UID: "agent"}, Requests: quantity.Amounts{"cpu": 1500}})
	b.SetPool(p)
	return b.World()
}

// Types too small for the DaemonSets and those sold out are passed over, and quota ends it.
func TestCheapest(t *testing.T) {
	w := market(t, world.Pool{Name: "fixed", Static: true, Requirements: world.Term{
		{Key: "team", Operator: constraint.In, Values: []string{"red", "blue"}},
	}})
	var types [][]string
	for _, l := range Cheapest(w, "fixed", 9) {
		var names []string
		for _, c := range l.Choices {
			names = append(names, c.Type)
		}
		types = append(types, names)
		if team := l.Labels["team"]; team != "red" && team != "blue" {
			t.Errorf("labels %v", l.Labels)
		}
		if l.Requests["cpu"] != 1500 {
			t.Errorf("requests %v", l.Requests)
		}
	}
	if diff := cmp.Diff([][]string{{"D4", "D8"}, {"D4", "D8"}, {"D4"}}, types); diff != "" {
		t.Error(diff)
	}
	if got := w.Budgets["cores"]; got != 13 {
		t.Errorf("the World's own budget became %d", got)
	}
}

func TestCheapestOfNothing(t *testing.T) {
	blocked := market(t, world.Pool{Name: "fixed", Static: true, Blocked: "PoolNotReady"})
	if got := Cheapest(blocked, "fixed", 1); got != nil {
		t.Errorf("bought for a blocked pool: %+v", got)
	}
	if got := Cheapest(blocked, "unknown", 1); got != nil {
		t.Errorf("bought for no pool: %+v", got)
	}
}

func TestRetireesByEvictionCostAndLife(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	machine := func(name string, age time.Duration, deletionCosts ...string) kube.Machine {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("100h")
		c.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
		m := kube.Machine{Claim: c, Node: &corev1.Node{}}
		for _, cost := range deletionCosts {
			p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: name}}
			p.Annotations = map[string]string{corev1.PodDeletionCost: cost}
			m.Pods = append(m.Pods, p)
		}
		return m
	}
	unborn := machine("unborn", 0)
	unborn.Claim.Status.Conditions = nil
	machines := []kube.Machine{
		machine("young", 0, "0", "0"), machine("old", 90*time.Hour, "0", "0", "0"), machine("cheap", 0, "-134217728"),
		machine("bad-cost", 0, "many"), machine("empty", 0), unborn,
	}
	var got []string
	for _, m := range retirees(machines, 99, now) {
		got = append(got, m.Claim.Name)
	}
	if diff := cmp.Diff([]string{"unborn", "empty", "cheap", "old", "bad-cost", "young"}, got); diff != "" {
		t.Error(diff)
	}
	if n := len(retirees(machines, 2, now)); n != 2 {
		t.Errorf("%d instead of 2", n)
	}
}
