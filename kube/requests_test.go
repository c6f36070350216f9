// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The quick sum equals the scheduler's own wherever it gives an answer.
func TestPlainSumIsScheduled(t *testing.T) {
	plain := 0
	for seed := range uint64(5000) {
		p := randomRequests(rand.New(rand.NewPCG(seed, 2)))
		sum, ok := plainSum(p)
		if !ok {
			continue
		}
		plain++
		if diff := cmp.Diff(schedulerRequests(p), sum.amounts()); diff != "" {
			t.Fatalf("seed %d: %s\n%+v", seed, diff, p.Spec)
		}
	}
	if plain < 1000 {
		t.Errorf("only %d of 5000 pods were plain", plain)
	}
}

func randomRequests(random *rand.Rand) *corev1.Pod {
	p := pendingPod("a")
	p.Spec.Containers = nil
	for i := range 1 + random.IntN(3) {
		c := corev1.Container{Name: fmt.Sprint("c", i)}
		c.Resources.Requests, c.Resources.Limits = randomList(random), randomList(random)
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	if random.IntN(4) == 0 {
		p.Spec.Overhead = randomList(random)
	}
	if random.IntN(8) == 0 {
		p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: randomList(random)}}}
	}
	if random.IntN(8) == 0 {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: randomList(random)}
	}
	if random.IntN(8) == 0 {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", Resources: &corev1.ResourceRequirements{Requests: randomList(random)}}}
	}
	return p
}

func randomList(random *rand.Rand) corev1.ResourceList {
	amounts := []string{"0", "1", "3", "1Gi", "0.5Gi", "100M", "1k", "2000m", "250m", "1.5", "100u", "1.0001", "1E", "8Ei", "1e30"}
	if random.IntN(8) > 0 {
		amounts = amounts[:7] // what people write
	}
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi", "pods"} {
		if random.IntN(3) == 0 {
			list[name] = resource.MustParse(amounts[random.IntN(len(amounts))])
		}
	}
	return list
}

// The budget of converting one ordinary pod: two microseconds.
func BenchmarkPod(b *testing.B) {
	plain := shopper()
	plain.Spec.Containers = []corev1.Container{container("cpu", "500m", "memory", "1Gi")}
	plain.Spec.NodeSelector = map[string]string{"team": "a"}
	plain.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	spread := plain.DeepCopy()
	spread.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, LabelSelector: picks("app", "web")}}
	repelled := plain.DeepCopy()
	repelled.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: corev1.LabelHostname, LabelSelector: picks("app", "web")}}}}
	for name, p := range map[string]*corev1.Pod{"plain": plain, "spread": spread, "anti-affinity": repelled} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			now := time.Now()
			for b.Loop() {
				Pod(p, now)
			}
		})
	}
}
