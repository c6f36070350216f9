// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// The Snapshot of a renewed builder equals the one before: whenever the renewal is, it changes no
// plan.
//
// Rule PLAN-10, Rule MEMORY-2.
func TestRenewalChangesNoPlan(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 350))
		kept, m := map[string]any{}, NewMirror(nil)
		addObjects(m)
		for range 300 {
			change(random, kept, m)
			if random.IntN(50) == 0 {
				renew(m)
			}
		}
		before := printedPlan(m)
		renew(m)
		if diff := cmp.Diff(before, printedPlan(m)); diff != "" {
			t.Fatalf("seed %d: a renewed builder changes the plan:\n%s", seed, diff)
		}
	}
}

// Everything that a plan depends on is written to the new builder: without any of it the plan of
// the cluster below would be another.
//
// Rule MEMORY-2.
func TestRenewalForgetsNothingThatExists(t *testing.T) {
	for name, omit := range map[string]func(*Mirror){
		"settings":   func(m *Mirror) { m.parts.builder.settings = cluster.Settings{} },
		"namespaces": func(m *Mirror) { clear(m.parts.builder.namespaces) },
		"catalogs":   func(m *Mirror) { clear(m.parts.builder.catalogs) },
		"quota": func(m *Mirror) {
			for class, c := range m.parts.builder.catalogs {
				m.parts.builder.catalogs[class] = classCatalog{types: c.types}
			}
		},
		"pools":   func(m *Mirror) { clear(m.parts.builder.pools) },
		"daemons": func(m *Mirror) { clear(m.parts.builder.daemons) },
		"nodes":   func(m *Mirror) { clear(m.parts.builder.nodes) },
		"pods":    func(m *Mirror) { clear(m.parts.builder.pods) },
		"buffers": func(m *Mirror) { clear(m.parts.builder.virtual) },
	} {
		m := NewMirror(nil)
		addObjects(m)
		before := printedPlan(m)
		renew(m)
		if diff := cmp.Diff(before, printedPlan(m)); diff != "" {
			t.Errorf("a renewed builder changes the plan:\n%s", diff)
		}
		omit(m)
		renew(m)
		if printedPlan(m) == before {
			t.Errorf("the plan does not depend on %s, so that this test proves nothing of them", name)
		}
	}
}

// renew has the Mirror make a new cluster.Builder, as for one that is wasteful.
func renew(m *Mirror) {
	b := m.parts.builder
	former := []string(nil)
	if b.snapshot.inner != nil {
		former = b.snapshot.inner.SelectorLabels()
	}
	_, _ = b.snapshot.take()
	b.snapshot.putBack(b.renewed(former, &m.mu))
}

func printedPlan(m *Mirror) (plan string) {
	m.View(func(snapshot *cluster.Snapshot) { plan = enginetest.Print(schedule.Solve(snapshot)) })
	return plan
}

// addObjects shows a cluster in which every object affects the plan.
func addObjects(m *Mirror) {
	m.SetSettings(cluster.Settings{Preferences: cluster.Ignore})
	m.SetNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}})
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Name: "default"}
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	pool.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	m.SetPool(pool)
	m.SetCatalog("default", instanceTypes(), map[string]int64{"cores": 8})
	m.SetDaemon(agent("1"))
	claim, node := joined(claimNamed("there"))
	m.SetClaim(claim)
	m.SetNode(node)
	m.SetPod(boundTo(pendingPod("runs"), node.Name), true)
	small := pendingPod("small")
	small.Spec.Containers = []corev1.Container{container("cpu", "300m")}
	m.SetPod(small, false)
	alone := pendingPod("alone")
	alone.Spec.Containers = []corev1.Container{container("cpu", "500m")}
	alone.Spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}}}},
		NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: zoned(corev1.LabelTopologyZone, "z2")}}},
	}
	m.SetPod(alone, false)
	for i := range 6 {
		m.SetPod(pendingPod(fmt.Sprint("w", i)), false)
	}
	spare := kube.Pod(pendingPod("spare"), time.Time{})
	spare.Virtual = true
	m.SetVirtualPods(nil, []cluster.Pod{spare})
}

// instanceTypes is two sizes in two zones, one of which costs more.
func instanceTypes() []offering.InstanceType {
	var out []offering.InstanceType
	for _, cores := range []int64{2, 4} {
		x := offering.InstanceType{Name: fmt.Sprint("t", cores), Capacity: quantity.Amounts{quantity.NameCPU: 1000 * cores, quantity.NameMemory: cores << 32, quantity.NamePods: 20}}
		for i, zone := range []string{"z1", "z2"} {
			x.Offerings = append(x.Offerings, offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: offering.Price((cores*10 + int64(i)) * 1e6), QuotaUses: []offering.QuotaUse{{Quota: "cores", Amount: cores}}})
		}
		out = append(out, x)
	}
	return out
}

// A thousand nodes under new names cause a renewal, one does not: the cost of renewals is
// always a small part of the cost of the changes.
//
// Rule MEMORY-2.
func TestRenewalIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, builder, beginnings := NewMirror(nil), (*cluster.Builder)(nil), 0
		addObjects(m)
		const nodes = 20_000
		for i := range nodes {
			claim, node := joined(claimNamed(fmt.Sprint("n", i)))
			node.Labels[corev1.LabelHostname] = node.Name
			m.SetClaim(claim)
			m.SetNode(node)
			if i%10 == 0 {
				m.View(func(*cluster.Snapshot) {})
				m.DropLapsed()
			}
			m.RemoveNode(node)
			m.RemoveClaim(claim)
			if m.parts.builder.snapshot.inner != builder {
				builder = m.parts.builder.snapshot.inner
				beginnings++
			}
		}
		if most := nodes/spareEntries + 1; beginnings > most || beginnings < 2 {
			t.Errorf("%d beginnings for %d nodes, want 2 to %d", beginnings, nodes, most)
		}
		if n := m.parts.builder.snapshot.inner.InternedCount(); n > 4*spareEntries {
			t.Errorf("%d interned strings are kept", n)
		}
	})
}

// A standby replica, which never decides, frees memory like a leader.
//
// Rule MEMORY-2.
func TestStandbyForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(nil)
		addObjects(m)
		for i := range 5000 {
			p := pendingPod(fmt.Sprint("job", i))
			p.Spec.NodeSelector = map[string]string{"job": p.Name}
			m.SetPod(p, false)
			budget := pdbOf(p.Name)
			budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": p.Name}}
			m.SetPDB(&budget)
			m.RemovePod(p)
			m.RemovePDB(&budget)
			if i%100 == 0 {
				m.View(func(snapshot *cluster.Snapshot) { snapshot.PodsToPlace() })
			}
			m.Tidy()
		}
		if n := m.parts.builder.snapshot.inner.InternedCount(); n > 4*spareEntries {
			t.Errorf("%d interned strings are kept", n)
		}
		if n := len(m.parts.protections.unchecked); n > 1 {
			t.Errorf("%d namespaces are to be looked at again", n)
		}
	})
}

// Pod events on a node are forgotten once both the node and its pods are deleted, even if the
// node is deleted first.
//
// Rule MEMORY-2.
func TestPodsThatOutliveTheirNodeLeaveNothing(t *testing.T) {
	for name, podFirst := range map[string]bool{"pod first": true, "node first": false} {
		m := NewMirror(nil)
		for i := range 3 {
			_, node := joined(claimNamed(fmt.Sprint("n", i)))
			p := boundTo(pendingPod(fmt.Sprint("p", i)), node.Name)
			m.SetNode(node)
			m.SetPod(p, false)
			m.Nominate(node.Name, []cluster.PodRef{kube.Ref(p)})
			if podFirst {
				m.RemovePod(p)
			}
			m.RemoveNode(node)
			if !podFirst {
				m.RemovePod(p)
			}
		}
		if left := len(m.parts.pods.onNode) + len(m.parts.activity) + len(m.parts.nominations.ends); left > 0 {
			t.Errorf("%s: pods of %d nodes, the activity of %d, nominations of %d are kept", name, len(m.parts.pods.onNode), len(m.parts.activity), len(m.parts.nominations.ends))
		}
	}
}
