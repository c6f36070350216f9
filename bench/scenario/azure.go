// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// zones are those of the region. Offerings without a zone exist too, but no
// NodePool accepts them.
var zones = [...]string{"eastus-1", "eastus-2", "eastus-3"}

// Azure is an empty cluster in a real region: every size on sale there, as spot
// and on demand, five weighted pools, three DaemonSets, and so many pods of 200
// Deployments. With plain set pods ask for nothing but cores and memory.
func Azure(ctx context.Context, count int, plain bool) (*Scenario, error) {
	types, err := region(ctx)
	if err != nil {
		return nil, err
	}
	d := deployments{random: newRandom(), plain: plain}
	for i, replicas := range skewed(count, 200) {
		d.deploy(i, replicas)
	}
	return &Scenario{
		Name: "azure", Types: withoutQuotas(types), Pools: azurePools(), DaemonSets: azureDaemonSets(), Pending: d.pods,
		Settings: cluster.Settings{PreferenceSurplusPermille: 100}, // for preferences, in thousandths: what karve starts with
	}, nil
}

// Deployment is how many replicas there are, and what each asks for: millicores, MiB and GPUs.
type Deployment struct {
	Replicas   int
	Milli, MiB int64
	GPUs       int64
}

// Deployments is an empty cluster in the same region: one NodePool without requirements but for
// linux and nodes on demand, no DaemonSets, and those Deployments. The CPU of burstable sizes counts
// at what they have all the time; upstream, which knows no such thing, counts all of it.
func Deployments(ctx context.Context, all ...Deployment) (*Scenario, error) {
	types, err := region(ctx)
	if err != nil {
		return nil, err
	}
	p := azurePool("default", 1, "", in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand))
	delete(p.Annotations, kube.BurstableCPUAnnotation)
	s := &Scenario{Name: "deployment", Types: withoutConstrained(withoutQuotas(types)), Pools: []*karpv1.NodePool{p}}
	for k, d := range all {
		asked := requests(d.Milli, d.MiB)
		if d.GPUs > 0 {
			asked["nvidia.com/gpu"] = *quantityOf(d.GPUs)
		}
		for i := range d.Replicas {
			s.Pending = append(s.Pending, pending(serial(fmt.Sprintf("web-%d", k), i), asked))
		}
	}
	return s, nil
}

// withoutQuotas removes quota uses: upstream has no notion of them.
func withoutQuotas(types []offering.InstanceType) []offering.InstanceType {
	out := slices.Clone(types)
	for i := range out {
		out[i].Offerings = slices.Clone(out[i].Offerings)
		for j := range out[i].Offerings {
			out[i].Offerings[j].QuotaUses = nil
		}
	}
	return out
}

// skewed distributes count pods to n Deployments, the k-th getting a share in
// proportion to 1/k: a few large ones and a long tail, none empty.
func skewed(count, n int) []int {
	sum := 0.0
	for k := range n {
		sum += 1 / float64(k+1)
	}
	out, left := make([]int, n), count
	for k := range out {
		out[k] = max(1, int(math.Floor(float64(count)/(float64(k+1)*sum))))
		left -= out[k]
	}
	out[0] += left
	return out
}

// Taints of the NodePools that pods must tolerate explicitly.
const batchTaint, gpuTaint, armTaint = "batch", "gpu", "arm"

func azurePools() []*karpv1.NodePool {
	amd64 := in(corev1.LabelArchStable, "amd64")
	noGPU := karpv1.NodeSelectorRequirementWithMinValues{Key: "karpenter.azure.com/sku-gpu-count", Operator: corev1.NodeSelectorOpDoesNotExist}
	spot := in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeSpot)
	return []*karpv1.NodePool{
		azurePool("batch", 50, batchTaint, amd64, noGPU, spot),
		azurePool("gpu", 40, gpuTaint, amd64, karpv1.NodeSelectorRequirementWithMinValues{Key: noGPU.Key, Operator: corev1.NodeSelectorOpExists}),
		azurePool("arm", 30, armTaint, in(corev1.LabelArchStable, "arm64"), noGPU),
		azurePool("general", 20, "", amd64, noGPU, in("karpenter.azure.com/sku-family", "D", "E", "F", "L", "B")),
		azurePool("rest", 1, "", amd64, noGPU, in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand)),
	}
}

func azurePool(name string, weight int32, taint string, rules ...karpv1.NodeSelectorRequirementWithMinValues) *karpv1.NodePool {
	p := pool(name)
	p.Spec.Weight = &weight
	// Upstream counts all CPU of burstable sizes; both are to plan with the same nodes.
	p.Annotations = map[string]string{kube.BurstableCPUAnnotation: kube.BurstableCPUFull}
	template := &p.Spec.Template
	template.Spec.Requirements = append(rules, in(corev1.LabelTopologyZone, zones[:]...), in(corev1.LabelOSStable, "linux"))
	template.Labels = map[string]string{"pool": name}
	if taint != "" {
		template.Spec.Taints = []corev1.Taint{{Key: taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	return p
}

func in(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func azureDaemonSets() []*appsv1.DaemonSet {
	var out []*appsv1.DaemonSet
	for _, d := range []struct {
		name        string
		cpu, memory int64
	}{{"network", 100, 150}, {"logs", 75, 200}, {"metrics", 50, 64}} {
		ds := &appsv1.DaemonSet{ObjectMeta: meta("daemonset", d.name)}
		ds.Namespace = "default"
		ds.Spec.Template.Spec = corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: requests(d.cpu, d.memory)}}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}
		out = append(out, ds)
	}
	return out
}

// deployments draws the workloads.
type deployments struct {
	random
	plain bool
	pods  []*corev1.Pod
}

// deploy adds the replicas of the i-th Deployment: sizes from 50m to 8 cores, the
// small ones the most frequent, and half a GiB to 8 GiB for each core.
func (d *deployments) deploy(i, replicas int) {
	cpu := oneOf[int64](d.random, 50, 100, 100, 200, 250, 250, 500, 500, 750, 1000, 1000, 1500, 2000, 4000, 8000)
	request := requests(cpu, max(64, cpu*oneOf[int64](d.random, 512, 1024, 2048, 2048, 4096, 4096, 6144, 8192)/1000))
	labels := map[string]string{"app": fmt.Sprintf("app-%03d", i)}
	apply := d.constraints(labels, request, replicas)
	for k := range replicas {
		p := pending(fmt.Sprintf("app-%03d-%05d", i, k), request)
		p.Labels = labels
		apply(&p.Spec)
		d.pods = append(d.pods, p)
	}
}

// constraints draws what all replicas of a Deployment ask for besides resources.
func (d *deployments) constraints(labels map[string]string, request corev1.ResourceList, replicas int) func(*corev1.PodSpec) {
	draw := d.IntN(100)
	zone := oneOf(d.random, zones[:]...)
	spread := func(key string, when corev1.UnsatisfiableConstraintAction) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			}}
		}
	}
	if d.plain {
		return func(*corev1.PodSpec) {}
	}
	switch {
	case draw < 10: // batch work on spot
		return selectPool("batch", batchTaint)
	case draw < 16:
		return selectPool("arm", armTaint)
	case draw < 21:
		return func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone} }
	case draw < 23 && replicas <= 40:
		request["nvidia.com/gpu"] = *quantityOf(1)
		return selectPool("gpu", gpuTaint)
	case draw < 30:
		return func(s *corev1.PodSpec) {
			s.NodeSelector = map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand}
		}
	case draw < 65:
		return func(*corev1.PodSpec) {}
	case draw < 85:
		return spread(corev1.LabelTopologyZone, corev1.DoNotSchedule)
	case draw < 93:
		return spread(corev1.LabelHostname, corev1.ScheduleAnyway)
	case replicas <= 40:
		return func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{alike(labels, corev1.LabelHostname)},
			}}
		}
	}
	return func(*corev1.PodSpec) {}
}

// selectPool selects a pool and tolerates its taint.
func selectPool(pool, taint string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{"pool": pool}
		s.Tolerations = []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}}
	}
}
