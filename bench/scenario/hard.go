// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// HardFamily is a kind of cluster in which nothing is like anything else, at any size. What works
// on pods, rules or nodes that are alike as if they were one finds nothing to gain there.
type HardFamily struct {
	Name string
	// Size is that at which the family must still be decided within a second.
	Size int
	Make func(size int) *Scenario
}

// TenantsApart is the family whose price is decided by which pods share no node.
const TenantsApart = "tenants apart"

// NodeChains is the family whose price is decided by how many chains share a node.
const NodeChains = "node chains"

// DistinctRequests is the family whose price is decided by which pods of different requests share a node.
const DistinctRequests = "distinct requests"

// HardFamilies lists them. Clusters of all these kinds have been seen or can be made by anyone who
// may create pods.
func HardFamilies() []HardFamily {
	return []HardFamily{
		{TenantsApart, 500, tenantsApart},
		{"rule of its own", 8000, ownRule},
		{"zone chain", 2000, zoneChain},
		{NodeChains, 7680, nodeChains},
		{"overlapping spreads", 4000, overlappingSpreads},
		{"pool labels", 400, poolLabels},
		{"pools and types", 2000, poolsAndTypes},
		{"tenants on nodes", 1000, tenantsOnNodes},
		{"priorities", 32000, priorities},
		{DistinctRequests, 32000, distinctRequests},
		{"apps of ten", 64000, appsOfTen},
		{"caches and webs", 16000, cachesAndWebs},
	}
}

// hard has one wide pool and n pods, which dress finishes.
func hard(name string, n int, dress func(i int, p *corev1.Pod)) *Scenario {
	s := &Scenario{Name: name, Types: linearTypes(400), Pools: []*karpv1.NodePool{widePool()}}
	for i := range n {
		p := pending(serial("pod", i), requests(250, 256))
		dress(i, p)
		s.Pending = append(s.Pending, p)
	}
	return s
}

// tenantsApart are pods of which each keeps off the nodes of all other tenants.
func tenantsApart(n int) *Scenario {
	return hard("tenants apart", n, func(i int, p *corev1.Pod) { keepOffOthers(p, serial("tenant", i)) })
}

func keepOffOthers(p *corev1.Pod, tenant string) {
	p.Labels["tenant"] = tenant
	others := metav1.LabelSelectorRequirement{Key: "tenant", Operator: metav1.LabelSelectorOpNotIn, Values: []string{tenant}}
	apart(p, corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tenant", Operator: metav1.LabelSelectorOpExists}, others},
	}})
}

// ownRule are pods with a label of their own that keep off nodes with that label, as Deployments of
// one replica have it.
func ownRule(n int) *Scenario {
	return hard("rule of its own", n, func(i int, p *corev1.Pod) {
		p.Labels["app"] = serial("app", i)
		apart(p, alike(map[string]string{"app": p.Labels["app"]}, corev1.LabelHostname))
	})
}

// zoneChain are pods of which each must be in the zone of the next one; the last one is free.
func zoneChain(n int) *Scenario {
	return hard("zone chain", n, func(i int, p *corev1.Pod) {
		p.Labels["app"] = serial("app", i)
		if i < n-1 {
			together(p, alike(map[string]string{"app": serial("app", i+1)}, corev1.LabelTopologyZone))
		}
	})
}

// nodeChains are chains of 16 pods of which each must be on the node of the next one.
func nodeChains(n int) *Scenario {
	return hard(NodeChains, n, func(i int, p *corev1.Pod) {
		p.Labels["app"] = serial("app", i)
		if i%16 < 15 && i < n-1 {
			together(p, alike(map[string]string{"app": serial("app", i+1)}, corev1.LabelHostname))
		}
	})
}

// overlappingSpreads are pods that spread over zones with all pods but those of one app.
func overlappingSpreads(n int) *Scenario {
	return hard("overlapping spreads", n, func(i int, p *corev1.Pod) {
		p.Labels["app"] = serial("app", i)
		spreadOver(p, corev1.LabelTopologyZone, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{serial("app", i+1)}},
		}})
	})
}

// poolLabels are pods that spread over labels which only the pool has, each over one of its own.
func poolLabels(n int) *Scenario {
	s := hard("pool labels", n, func(i int, p *corev1.Pod) {
		p.Labels["app"] = serial("app", i)
		spreadOver(p, serial("example.com/rack", i), &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}})
	})
	for i := range n {
		s.Pools[0].Spec.Template.Spec.Requirements = append(s.Pools[0].Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: serial("example.com/rack", i), Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b", "c"},
		})
	}
	return s
}

// poolsAndTypes are many pools that take every pod and sell every type, and pods that are all different.
func poolsAndTypes(n int) *Scenario {
	s := hard("pools and types", n, func(i int, p *corev1.Pod) {
		p.Labels["app"] = serial("app", i)
		p.Spec.Containers[0].Resources.Requests = requests(int64(100+i%797), int64(128+i%1009))
		spreadOver(p, corev1.LabelTopologyZone, &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}})
	})
	s.Types, s.Pools = mixedTypes(1500), nil
	for i := range 104 {
		s.Pools = append(s.Pools, pool(serial("pool", i)))
	}
	return s
}

// mixedTypes are n types with 1 to 8 GiB a core, at prices that do not grow evenly.
func mixedTypes(n int) []offering.InstanceType {
	var out []offering.InstanceType
	for i := range int64(n) {
		t := linearType(1 + i/8)
		memory := (1 + i%8) * (1 + i/8) << 30
		t.Name, t.Capacity[quantity.NameMemory] = fmt.Sprintf("mixed-%d", i), memory
		t.Labels["integer"] = []string{fmt.Sprint(i)}
		t.Offerings = linearOfferings(offering.Price((1+i/8)*40_000_000 + memory/50 + i*i%977*100_000))
		out = append(out, t)
	}
	return out
}

// tenantsOnNodes are tenants with a node each, which are all different, and as many pods of theirs.
func tenantsOnNodes(n int) *Scenario {
	s := hard("tenants on nodes", n, func(i int, p *corev1.Pod) { keepOffOthers(p, serial("tenant", i)) })
	for i := range n {
		t := linearType(int64(2 + i%300))
		s.addNode(&t, i)
		s.Nodes[i].Labels["example.com/rack"] = serial("rack", i)
		p := pending(serial("bound", i), requests(250, 256))
		keepOffOthers(p, serial("tenant", i))
		run(p, s.Nodes[i].Name)
		s.Bound = append(s.Bound, p)
	}
	return s
}

// priorities are pods of which each has a priority of its own, spread over zones.
func priorities(n int) *Scenario {
	return hard("priorities", n, func(i int, p *corev1.Pod) {
		priority := int32(i)
		p.Spec.Priority, p.Labels["app"] = &priority, "all"
		spreadOver(p, corev1.LabelTopologyZone, &metav1.LabelSelector{MatchLabels: p.Labels})
	})
}

// distinctRequests are pods that ask for what no other asks for.
func distinctRequests(n int) *Scenario {
	return hard(DistinctRequests, n, func(i int, p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = requests(int64(100+i%4001), int64(64+i%7919))
	})
}

// appsOfTen have ten replicas each, spread over zones and kept off each other's nodes.
func appsOfTen(n int) *Scenario {
	return hard("apps of ten", n, func(i int, p *corev1.Pod) {
		p.Labels["app"] = serial("app", i/10)
		p.Spec.Containers[0].Resources.Requests = requests(int64(100+i/10%5*150), int64(256+i/10%3*256))
		spreadOver(p, corev1.LabelTopologyZone, &metav1.LabelSelector{MatchLabels: p.Labels})
		apart(p, alike(p.Labels, corev1.LabelHostname))
	})
}

// cachesAndWebs are apps of three caches, one in each zone, and seven webs, each in the zone of a cache
// of its app. A cache must be bound before webs, and the spread of either counts the other.
func cachesAndWebs(n int) *Scenario {
	return hard("caches and webs", n, func(i int, p *corev1.Pod) {
		p.Labels["app"], p.Labels["role"] = serial("app", i/10), "cache"
		spreadOver(p, corev1.LabelTopologyZone, &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}})
		if i%10 > 2 {
			together(p, alike(map[string]string{"app": p.Labels["app"], "role": "cache"}, corev1.LabelTopologyZone))
			p.Labels["role"] = "web"
		}
	})
}

func spreadOver(p *corev1.Pod, key string, of *metav1.LabelSelector) {
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: of,
	})
}

// apart adds required anti-affinity, together required affinity.
func apart(p *corev1.Pod, terms ...corev1.PodAffinityTerm) {
	affinityOf(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
}

func together(p *corev1.Pod, terms ...corev1.PodAffinityTerm) {
	affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}
