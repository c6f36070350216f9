// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// disk is the CSI driver of the volumes that are attached.
const disk = "disk.example.com"

// Labels of the instance types, besides those that Kubernetes gives nodes.
const (
	labelCores  = "example.com/cores"  // numbers, some of them odd
	labelFamily = "example.com/family" // a or b
	labelTeam   = "team"               // only NodePools give it
)

// moment is when everything was created, unless a test of age needs another time.
var moment = metav1.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Random draws a world. The same seed always gives the same world.
func Random(seed uint64) *World {
	w := &World{}
	return draw(seed, w, newExtras(seed, w))
}

// Plain draws the world of Random without quotas, reserved capacity, minValues, capacity buffers,
// preferred pod affinity, workloads of many pods, and pods of nodes that do not exist.
func Plain(seed uint64) *World { return draw(seed, &World{}, nil) }

// Shared draws the world of Random without what upstream does not know, or has in another way:
// quotas, reserved capacity and capacity buffers.
func Shared(seed uint64) *World {
	w := &World{}
	x := newExtras(seed, w)
	x.shared = true
	return draw(seed, w, x)
}

func draw(seed uint64, w *World, x *extras) *World {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x301d5)), w: w, used: map[string]corev1.ResourceList{}, extras: x}
	g.namespaces()
	g.types()
	x.supply()
	g.pools()
	x.minValues()
	g.storageClasses()
	g.nodes()
	g.daemonSets()
	g.workloads()
	x.buffers()
	g.overlays()
	g.settings()
	x.settings()
	return g.w
}

type generator struct {
	*rand.Rand
	w    *World
	used map[string]corev1.ResourceList // what the pods of each node request
	n    int                            // makes names unique

	extras *extras
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// some are up to most of the values, each at most once, in their order; at least one.
func some[T any](g *generator, most int, of ...T) []T {
	var out []T
	for len(out) == 0 {
		for _, v := range of {
			if len(out) < most && g.chance(45) {
				out = append(out, v)
			}
		}
	}
	return out
}

func (g *generator) serial(prefix string) string {
	g.n++
	return fmt.Sprintf("%s%d", prefix, g.n)
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: moment}
}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func (g *generator) namespaces() {
	for _, n := range []struct{ name, env string }{{"default", ""}, {"kube-system", ""}, {"team-a", "prod"}, {"team-b", "test"}} {
		ns := &corev1.Namespace{ObjectMeta: meta("", n.name)}
		ns.Labels = map[string]string{corev1.LabelMetadataName: n.name}
		if n.env != "" {
			ns.Labels["env"] = n.env
		}
		g.w.Namespaces = append(g.w.Namespaces, ns)
	}
}

func (g *generator) settings() {
	g.w.Settings = cluster.Settings{
		Preferences:               pick(g, "", cluster.Respect, cluster.Ignore),
		PreferenceSurplusPermille: pick(g, 0, 100, cluster.UnlimitedPreferenceSurplus),
	}
}

func (g *generator) types() {
	zones := []string{"z1", "z2", "z3"}[:1+g.IntN(3)]
	for i := range 3 + g.IntN(10) {
		cores := pick(g, int64(1), 2, 2, 4, 4, 8, 16)
		t := offering.InstanceType{
			Name: fmt.Sprintf("t%d", i+1),
			Labels: map[string][]string{
				corev1.LabelOSStable: {"linux"}, corev1.LabelArchStable: {pick(g, "amd64", "amd64", "arm64")},
				labelCores: {pick(g, fmt.Sprint(cores), fmt.Sprint(cores), "007", "0", "99999999999999999999", "many", "")},
			},
			Capacity: quantity.Amounts{
				quantity.NameCPU: cores * 1000, quantity.NameMemory: cores * int64(1+g.IntN(4)) << 30,
				quantity.NamePods: int64(pick(g, 3, 8, 30, 110)), quantity.NameStorage: 50 << 30,
			},
			Overhead: quantity.Amounts{quantity.NameCPU: 100, quantity.NameMemory: 200 << 20},
		}
		if g.chance(60) {
			t.Labels[labelFamily] = []string{pick(g, "a", "b")}
		}
		if g.chance(15) {
			t.Capacity["nvidia.com/gpu"] = int64(1 + g.IntN(2))
		}
		if g.chance(40) {
			t.Capacity[quantity.Attachable+disk] = int64(1 + g.IntN(4))
		}
		for _, zone := range some(g, 3, zones...) {
			for _, capacityType := range some(g, 2, offering.OnDemand, offering.Spot) {
				price := cores * (40 + int64(g.IntN(20))) * 1e6
				if capacityType == offering.Spot {
					price /= 3
				}
				o := offering.Offering{Zone: zone, CapacityType: capacityType, Price: offering.Price(price)}
				if g.chance(10) {
					o.Unavailable = "sold out"
				}
				t.Offerings = append(t.Offerings, o)
			}
		}
		g.w.Types = append(g.w.Types, t)
	}
}

func (g *generator) pools() {
	for i := range 1 + g.IntN(3) {
		p := &karpv1.NodePool{ObjectMeta: meta("", fmt.Sprintf("pool%d", i+1))}
		template := &p.Spec.Template
		template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: class}
		for g.chance(40) {
			template.Spec.Requirements = append(template.Spec.Requirements, g.poolRequirement())
		}
		if g.chance(30) {
			template.Labels = map[string]string{"example.com/pool": pick(g, "x", "y")}
		}
		for g.chance(20) {
			template.Spec.Taints = append(template.Spec.Taints, g.taint())
		}
		if g.chance(20) {
			template.Spec.StartupTaints = append(template.Spec.StartupTaints, corev1.Taint{Key: "example.com/starting", Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)})
		}
		if g.chance(25) {
			p.Spec.Limits = karpv1.Limits(pick(g, list("cpu", "6"), list("cpu", "20"), list("nodes", "1"), list("nodes", "3"), list("memory", "12Gi"), list("cpu", "9", "nodes", "2")))
		}
		if g.chance(30) {
			weight := int32(1 + g.IntN(3))
			p.Spec.Weight = &weight
		}
		if g.chance(5) {
			replicas := int64(1)
			p.Spec.Replicas = &replicas
		}
		ready := metav1.ConditionTrue
		if g.chance(4) {
			ready = metav1.ConditionFalse
		}
		p.Status.Conditions = append(p.Status.Conditions, condition("Ready", ready))
		g.w.NodePools = append(g.w.NodePools, p)
	}
}

func (g *generator) poolRequirement() karpv1.NodeSelectorRequirementWithMinValues {
	r := karpv1.NodeSelectorRequirementWithMinValues{Operator: corev1.NodeSelectorOpIn}
	switch g.IntN(8) {
	case 0:
		r.Key, r.Values = corev1.LabelTopologyZone, some(g, 2, "z1", "z2", "z3")
	case 1:
		r.Key, r.Values = karpv1.CapacityTypeLabelKey, []string{pick(g, offering.OnDemand, offering.Spot)}
	case 2:
		r.Key, r.Values = corev1.LabelArchStable, []string{"amd64"}
	case 3:
		r.Key, r.Operator, r.Values = corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpNotIn, some(g, 2, "t1", "t2", "t3")
	case 4:
		r.Key, r.Values = labelTeam, some(g, 2, "red", "blue", "007")
	case 5:
		r.Key, r.Operator, r.Values = labelCores, pick(g, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, karpv1.NodeSelectorOpGte, karpv1.NodeSelectorOpLte), []string{pick(g, "1", "4", "007", "0")}
	case 6:
		r.Key, r.Operator = labelFamily, pick(g, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)
	default:
		r.Key, r.Operator, r.Values = labelFamily, pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), []string{pick(g, "a", "b")}
	}
	return r
}

func (g *generator) taint() corev1.Taint {
	return corev1.Taint{
		Key: pick(g, "dedicated", "example.com/gpu", "size"), Value: pick(g, "", "x", "5", "007"),
		Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
	}
}
