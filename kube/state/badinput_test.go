// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
)

// nasty is a cluster to be filled with bad input; unchanged, all its pods would be placed.
type nasty struct {
	pods  []*corev1.Pod
	pools []*karpv1.NodePool
	types []offering.InstanceType
	nodes []*corev1.Node
}

func newNasty() *nasty {
	size := func(name string, cores int64, price offering.Price) offering.InstanceType {
		t := offering.InstanceType{Name: name, Labels: map[string][]string{corev1.LabelArchStable: {"amd64"}, corev1.LabelOSStable: {"linux"}},
			Capacity: quantity.Amounts{quantity.NameCPU: cores * 1000, quantity.NameMemory: cores << 32, quantity.NamePods: 110, quantity.NameStorage: 100 << 30}}
		for _, zone := range []string{"1", "2", "3"} {
			t.Offerings = append(t.Offerings, offering.Offering{Zone: zone, CapacityType: offering.OnDemand, Price: price})
		}
		return t
	}
	n := &nasty{types: []offering.InstanceType{size("D4", 4, 200e6), size("D16", 16, 800e6)}, pools: []*karpv1.NodePool{nastyPool("all")}}
	n.grow(1)
	return n
}

func nastyPool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "g", Kind: "K", Name: "default"}
	ready(p)
	return p
}

// grow makes it n pods.
func (n *nasty) grow(to int) {
	for len(n.pods) < to {
		p := pendingPod(fmt.Sprint("p", len(n.pods)))
		p.Labels = map[string]string{"app": "w"}
		n.pods = append(n.pods, p)
	}
}

// every edits all pods.
func every(count int, edit func(p *corev1.Pod, i int)) func(*nasty) {
	return func(n *nasty) {
		n.grow(count)
		for i, p := range n.pods {
			edit(p, i)
		}
	}
}

// solve runs the whole path from API objects to the plan.
func (n *nasty) solve() (plan schedule.Plan) {
	m := NewMirror(nil)
	for _, p := range n.pools {
		m.SetPool(p)
	}
	m.SetCatalog(kube.ClassOf(nastyPool("").Spec.Template.Spec.NodeClassRef), n.types, nil)
	for _, x := range n.nodes {
		m.SetNode(x)
	}
	for _, p := range n.pods {
		m.SetPod(p, true)
	}
	m.View(func(snapshot *cluster.Snapshot) { plan = schedule.Solve(snapshot) })
	return plan
}

func spreadOver(key string, skew int32, sel *metav1.LabelSelector) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: sel}
}

func requiring(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

func near(term corev1.PodAffinityTerm) *corev1.Affinity {
	return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
}

func apart(terms ...corev1.PodAffinityTerm) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

// many is n distinct words.
func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("v", i)
	}
	return out
}

func requested(pairs ...string) func(p *corev1.Pod, i int) {
	return func(p *corev1.Pod, _ int) { p.Spec.Containers[0].Resources.Requests = resources(pairs...) }
}

// No content of an API object makes karve panic, hang or launch something unintended: every pod
// is placed or gets a reason.
//
// Rule POD-6, Rule POD-5.
func TestBadObjects(t *testing.T) {
	app := picks("app", "w")
	host, zone := corev1.LabelHostname, corev1.LabelTopologyZone
	for _, tc := range []struct {
		name   string
		spoil  func(*nasty)
		served int // pods; the others have a reason
	}{
		{"nothing wrong", every(10, func(*corev1.Pod, int) {}), 10},
		{"10,000 tolerations", every(100, func(p *corev1.Pod, i int) {
			for _, v := range many(10_000) {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: v, Operator: corev1.TolerationOpExists})
			}
		}), 100},
		{"10,000 tolerations, other ones in each of 100 pods", every(100, func(p *corev1.Pod, i int) {
			for _, v := range many(10_000) {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint(i, v), Operator: corev1.TolerationOpExists})
			}
		}), 100},
		{"10,000 node selector terms", every(10, func(p *corev1.Pod, i int) {
			terms := make([]corev1.NodeSelectorTerm, 10_000)
			for j := range terms {
				terms[j] = zoned(zone, fmt.Sprint(j))
			}
			p.Spec.Affinity = requiring(terms...)
		}), 0},
		{"10,000 labels in the node selector", every(5, func(p *corev1.Pod, i int) {
			p.Spec.NodeSelector = map[string]string{}
			for _, v := range many(10_000) {
				p.Spec.NodeSelector[fmt.Sprint(v, i)] = "x"
			}
		}), 0},
		{"10,000 values of a zone", every(100, func(p *corev1.Pod, i int) {
			p.Spec.Affinity = requiring(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: append(many(10_000), "1", fmt.Sprint("own", i))}}})
		}), 100},
		{"10,000 preferred terms", every(10, func(p *corev1.Pod, i int) {
			a := &corev1.NodeAffinity{}
			for j, v := range many(10_000) {
				a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: int32(1 + j%100), Preference: zoned(zone, v)})
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: a}
		}), 10},
		{"200 preferred zones of 100 pods that differ", every(100, func(p *corev1.Pod, i int) {
			a := &corev1.NodeAffinity{}
			for j, v := range many(200) {
				a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{Weight: int32(1 + j%100), Preference: zoned(zone, fmt.Sprint(v, i))})
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: a}
		}), 100},
		{"10,000 values of a pod selector", every(100, func(p *corev1.Pod, i int) {
			sel := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: append(many(10_000), "w", fmt.Sprint(i))}}}
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver(zone, 1, sel)}
		}), 100},
		{"1,000 terms of anti-affinity", every(20, func(p *corev1.Pod, i int) {
			var terms []corev1.PodAffinityTerm
			for _, v := range many(1000) {
				terms = append(terms, corev1.PodAffinityTerm{TopologyKey: host, LabelSelector: picks("app", v)})
			}
			p.Spec.Affinity = apart(terms...)
		}), 20},
		{"1,000 terms of anti-affinity over zones", every(20, func(p *corev1.Pod, i int) {
			var terms []corev1.PodAffinityTerm
			for _, v := range many(1000) {
				terms = append(terms, corev1.PodAffinityTerm{TopologyKey: zone, LabelSelector: picks("app", v)})
			}
			p.Spec.Affinity = apart(terms...)
		}), 20},
		{"300 spreads over unknown keys", every(10, func(p *corev1.Pod, i int) {
			for _, v := range many(300) {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, spreadOver(v, 1, app))
			}
		}), 0},
		{"200 spreads over zones by other selectors", every(10, func(p *corev1.Pod, i int) {
			for _, v := range many(200) {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, spreadOver(zone, 1, picks("app", v)))
			}
		}), 10},
		{"spread over an unknown key", every(3, func(p *corev1.Pod, i int) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver("rack", 1, app)}
		}), 0},
		{"spread over no key", every(3, func(p *corev1.Pod, i int) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver("", 1, app)}
		}), 0},
		{"no skew", every(3, func(p *corev1.Pod, i int) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver(zone, 0, app)}
		}), 0},
		{"spread without a selector", every(3, func(p *corev1.Pod, i int) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOver(zone, 1, nil)}
		}), 3},
		{"a million domains of hosts", every(30, func(p *corev1.Pod, i int) {
			c := spreadOver(host, 1, app)
			c.MinDomains = new(int32(1_000_000))
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c}
		}), 30},
		{"near whom no selector names", every(3, func(p *corev1.Pod, i int) { p.Spec.Affinity = near(corev1.PodAffinityTerm{TopologyKey: zone}) }), 0},
		{"near over no key", every(3, func(p *corev1.Pod, i int) { p.Spec.Affinity = near(corev1.PodAffinityTerm{LabelSelector: app}) }), 0},
		{"apart from whom no selector names", every(3, func(p *corev1.Pod, i int) { p.Spec.Affinity = apart(corev1.PodAffinityTerm{TopologyKey: zone}) }), 3},
		{"less than nothing", every(3, requested("cpu", "-1", "memory", "-1Gi", "example.com/x", "-5")), 3},
		{"far less than nothing", every(3, requested("cpu", "-1e30", "memory", "-1e30")), 3},
		{"1e18 of everything", every(3, requested("cpu", "1e18", "memory", "1e18", "ephemeral-storage", "1e18", "pods", "1e18", "nvidia.com/gpu", "1e18")), 0},
		{"more than a number holds", every(3, requested("cpu", "1e30", "memory", "1e30")), 0},
		{"more resources than are counted", every(3, func(p *corev1.Pod, i int) {
			for _, v := range many(30) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceName("example.com/"+v)] = resources("x", "1")["x"]
			}
		}), 0},
		{"init containers beyond any number", every(3, func(p *corev1.Pod, i int) {
			for range 40 {
				c := container("cpu", "9e18", "memory", "9e18")
				c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
				p.Spec.InitContainers = append(p.Spec.InitContainers, c)
			}
		}), 0},
		{"10,000 containers", every(2, func(p *corev1.Pod, i int) {
			for range 10_000 {
				p.Spec.Containers = append(p.Spec.Containers, container("cpu", "9e18"))
			}
		}), 0},
		{"no names", every(1, func(p *corev1.Pod, i int) { p.Name, p.Namespace = "", "" }), 1},
		{"one name in two namespaces", every(2, func(p *corev1.Pod, i int) { p.Name, p.Namespace = "same", fmt.Sprint("ns", i) }), 2},
		{"port 0", every(2, func(p *corev1.Pod, i int) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 0}} }), 2},
		{"port 70000", every(2, func(p *corev1.Pod, i int) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 70000}} }), 0},
		{"port -1", every(2, func(p *corev1.Pod, i int) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: -1}} }), 0},
		{"all ports there are", every(3, func(p *corev1.Pod, i int) {
			for port := range int32(math.MaxUint16) {
				p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: port + 1})
			}
		}), 0},
		{"1,000 ports of 20 pods, some the same", every(20, func(p *corev1.Pod, i int) {
			for port := range int32(1000) {
				p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(500*i) + port + 1})
			}
		}), 20},
		{"the first and the last priority", every(2, func(p *corev1.Pod, i int) {
			p.Spec.Priority = new([]int32{math.MinInt32, math.MaxInt32}[i])
		}), 2},
		{"a pool of nothing", func(n *nasty) { n.pools = []*karpv1.NodePool{{}} }, 0},
		{"a pool that contradicts itself", func(n *nasty) {
			n.pools[0].Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
				{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"1"}}, {Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}},
			}
		}, 0},
		{"a pool of 10,000 values", func(n *nasty) {
			n.pools[0].Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: append(many(10_000), "2")}}
		}, 1},
		{"more values than there are", func(n *nasty) {
			n.pools[0].Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: zone, Operator: corev1.NodeSelectorOpExists, MinValues: new(math.MaxInt32)}}
		}, 0},
		{"fewer values than none", func(n *nasty) {
			n.pools[0].Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: zone, Operator: corev1.NodeSelectorOpExists, MinValues: new(-5)}}
		}, 1},
		{"1,000 pools", func(n *nasty) {
			for _, v := range many(999) {
				n.pools = append(n.pools, nastyPool(v))
			}
			n.grow(50)
		}, 50},
		{"1,000 pools and nobody fits", func(n *nasty) {
			for _, v := range many(999) {
				n.pools = append(n.pools, nastyPool(v))
			}
			every(50, func(p *corev1.Pod, i int) { requested("cpu", fmt.Sprint(100+i))(p, i) })(n)
		}, 0},
		{"limits of nothing", func(n *nasty) { n.pools[0].Spec.Limits = karpv1.Limits(resources("cpu", "0")) }, 0},
		{"limits below nothing", func(n *nasty) { n.pools[0].Spec.Limits = karpv1.Limits(resources("cpu", "-1e30", "nodes", "-1e30")) }, 0},
		{"limits beyond everything", func(n *nasty) {
			n.pools[0].Spec.Limits = karpv1.Limits(resources("cpu", "1e30", "memory", "1e18", "nodes", "1e30"))
		}, 1},
		{"limits of 30 resources nobody has", func(n *nasty) {
			n.pools[0].Spec.Limits = karpv1.Limits{}
			for _, v := range many(30) {
				n.pools[0].Spec.Limits[corev1.ResourceName("example.com/"+v)] = resources("x", "1")["x"]
			}
		}, 1},
		{"instances that pay", func(n *nasty) { n.types[0].Offerings[0].Price, n.types[1].Offerings[2].Price = -1, math.MinInt64 }, 1},
		{"instances beyond price", func(n *nasty) {
			for i := range n.types {
				for j := range n.types[i].Offerings {
					n.types[i].Offerings[j].Price = 1e18
				}
			}
			every(12, func(p *corev1.Pod, i int) {
				p.Spec.Affinity = apart(corev1.PodAffinityTerm{TopologyKey: host, LabelSelector: app})
			})(n)
		}, 12},
		{"instances for nothing", func(n *nasty) {
			for i := range n.types {
				for j := range n.types[i].Offerings {
					n.types[i].Offerings[j].Price = 0
				}
			}
			n.grow(200)
		}, 200},
		{"an instance larger than any number", func(n *nasty) {
			n.types[0].Capacity = quantity.Amounts{quantity.NameCPU: math.MaxInt64, quantity.NameMemory: math.MaxInt64, quantity.NamePods: math.MaxInt64}
			n.grow(50)
		}, 50},
		{"an instance of nothing", func(n *nasty) {
			n.types[0].Capacity = nil
			n.types[1].Capacity = quantity.Amounts{quantity.NameCPU: math.MinInt64}
		}, 0},
		{"a node that has less than nothing", func(n *nasty) {
			n.nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: resources("cpu", "-1e30", "memory", "-1e30", "pods", "-1"), Capacity: resources("cpu", "-1e30")}}}
		}, 1},
		{"a bound pod that gives room", func(n *nasty) {
			n.nodes = []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: resources("cpu", "1", "memory", "1Gi", "pods", "10")}}}
			n.types = nil
			n.grow(3)
			requested("cpu", "-100")(n.pods[0], 0)
			n.pods[0].Spec.NodeName = "n"
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNasty()
			tc.spoil(n)
			n.holdToAccount(t, n.solve(), tc.served)
		})
	}
}

// holdToAccount checks that every pod is placed once or has a reason.
func (n *nasty) holdToAccount(t *testing.T, plan schedule.Plan, served int) {
	t.Helper()
	seen := map[types.UID]int{}
	note := func(pods []cluster.PodRef) int {
		for _, p := range pods {
			seen[types.UID(p.UID)]++
		}
		return len(pods)
	}
	placed := 0
	for _, l := range plan.Launches {
		placed += note(l.Pods)
	}
	for _, x := range plan.Nominations {
		placed += note(x.Pods)
	}
	for _, u := range plan.Unplaced {
		note(u.Pods)
		if u.Because == "" || u.Detail == "" && len(u.Funnels) == 0 {
			t.Errorf("%v is left out without a reason", u.Pods)
		}
	}
	for _, p := range n.pods {
		if want := 1; p.Spec.NodeName == "" && seen[p.UID] != want {
			t.Errorf("pod %s is %d times in the plan", p.Name, seen[p.UID])
		}
	}
	if placed != served {
		t.Errorf("%d pods are placed, want %d", placed, served)
		for _, u := range plan.Unplaced {
			t.Logf("%d pods: %s %s %+v", len(u.Pods), u.Because, u.Detail, u.Funnels)
		}
	}
	if price := plan.Price(); price < 0 || price < plan.LowerBound {
		t.Errorf("the plan costs %s, at least %s", price, plan.LowerBound)
	}
}
