// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// extras draws what Random adds to the worlds of Plain. It has random numbers of its own, so that
// the rest of the world stays the same. A nil *extras adds nothing.
type extras struct {
	*generator
	shared bool // see Shared
}

// newExtras returns the extras of the seed's world.
func newExtras(seed uint64, w *World) *extras {
	return &extras{generator: &generator{Rand: rand.New(rand.NewPCG(seed, 0x5ca4ce)), w: w}}
}

// replicas is how many more pods a workload has.
func (x *extras) replicas() int {
	if x == nil || !x.chance(8) {
		return 0
	}
	return 2 + x.IntN(12)
}

// preferences adds preferred pod affinity to a workload's template.
func (x *extras) preferences(template *corev1.Pod) {
	if x == nil || !x.chance(6) {
		return
	}
	a := template.Spec.Affinity
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.PodAffinity == nil {
		a.PodAffinity = &corev1.PodAffinity{}
	}
	a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + x.IntN(100)), PodAffinityTerm: x.podTerm(template, 60)}}
	template.Spec.Affinity = a
}

// lose binds a pending pod to a node that does not exist any more.
func (x *extras) lose(p *corev1.Pod) {
	if x != nil && p.Spec.NodeName == "" && x.chance(2) {
		p.Spec.NodeName, p.Status = "vanished", corev1.PodStatus{Phase: corev1.PodRunning}
	}
}

// supply draws quotas, and capacity that was reserved in advance.
func (x *extras) supply() {
	if x == nil || x.shared {
		return
	}
	reserved := x.chance(20)
	x.w.Quota = map[string]int64{}
	for i := range x.w.Types {
		t := &x.w.Types[i]
		if reserved && x.chance(40) {
			x.reserve(t)
		}
	}
	if !x.chance(35) {
		return
	}
	for _, name := range some(x.generator, 3, "cores", "spot cores", "cores of family a", offering.AddressQuota+"subnet") {
		x.w.Quota[name] = int64(x.IntN(4) * (1 + x.IntN(12)))
		if strings.HasPrefix(name, offering.AddressQuota) {
			x.w.Quota[name] = int64(x.IntN(5))
		}
		for i := range x.w.Types {
			x.useQuota(&x.w.Types[i], name)
		}
	}
}

// reserve adds an offering of the type that costs nothing more, for so many nodes.
func (x *extras) reserve(t *offering.InstanceType) {
	name := "reservation of " + t.Name
	x.w.Quota[name] = int64(1 + x.IntN(2))
	t.Offerings = append(t.Offerings, offering.Offering{
		Zone: t.Offerings[0].Zone, CapacityType: offering.Reserved, Price: offering.Price(x.IntN(2) * 1e6),
		QuotaUses: []offering.QuotaUse{{Quota: name, Amount: 1}},
	})
}

// useQuota makes the type's offerings use the quota.
func (x *extras) useQuota(t *offering.InstanceType, name string) {
	for i := range t.Offerings {
		o := &t.Offerings[i]
		amount := t.Capacity[quantity.NameCPU] / 1000
		switch {
		case name == "spot cores" && o.CapacityType != offering.Spot, name == "cores" && o.CapacityType == offering.Spot:
			continue
		case name == "cores of family a" && (len(t.Labels[labelFamily]) == 0 || t.Labels[labelFamily][0] != "a"):
			continue
		case strings.HasPrefix(name, offering.AddressQuota):
			amount = 1
		}
		o.QuotaUses = append(o.QuotaUses, offering.QuotaUse{Quota: name, Amount: amount})
	}
}

// minValues makes some NodePools ask for several values of a label.
func (x *extras) minValues() {
	if x == nil {
		return
	}
	for _, p := range x.w.NodePools {
		if !x.chance(12) {
			continue
		}
		n := 2 + x.IntN(2)
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
			Key: pick(x.generator, corev1.LabelInstanceTypeStable, corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, labelCores), Operator: corev1.NodeSelectorOpExists, MinValues: &n,
		})
	}
}

// buffers draws capacity buffers.
func (x *extras) buffers() {
	if x == nil || x.shared || !x.chance(15) {
		return
	}
	for i := range 1 + x.IntN(2) {
		p := x.template(fmt.Sprintf("buffer%d", i+1))
		x.w.Buffers = append(x.w.Buffers, &Buffer{
			ObjectMeta: meta(p.Namespace, fmt.Sprintf("buffer%d", i+1)), Chunks: 1 + x.IntN(4),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec},
		})
	}
}

// settings lets launches have fewer values than minValues in some worlds.
func (x *extras) settings() {
	if x != nil && x.chance(30) {
		x.w.Settings.RelaxMinValues = true
	}
}

// Prices per hour of what a node costs besides its instance.
const (
	diskPrice offering.Price = 27e6 // 128 GiB of Premium SSD, about $20 a month
	agentFee  offering.Price = 20e6 // an agent that is billed by node, about $15 a month
)

// WithWholePrices adds to the offerings of some types the price of an OS disk that is not on the
// instance, and in some worlds a fee for each node, and returns the world.
func (w *World) WithWholePrices(seed uint64) *World {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0xd15c))}
	var fee offering.Price
	if g.chance(30) {
		fee = agentFee
	}
	for i := range w.Types {
		extra := fee
		if g.chance(60) {
			extra = extra.Add(diskPrice)
		}
		for j := range w.Types[i].Offerings {
			o := &w.Types[i].Offerings[j]
			o.Price, o.Extras = o.Price.Add(extra), o.Extras.Add(extra)
		}
	}
	return w
}
