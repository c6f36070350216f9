// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Converter that has converted many pods returns what the function Pod returns, and earlier
// results do not change.
func TestConverterIsPod(t *testing.T) {
	var k Converter
	now := time.Now()
	for seed := range uint64(5000) {
		p := randomNeighbours(rand.New(rand.NewPCG(seed, 3)))
		want := Pod(p, now)
		for range 2 {
			if diff := cmp.Diff(want, k.Pod(p, now)); diff != "" {
				t.Fatalf("seed %d: %s\n%+v", seed, diff, p.Spec)
			}
		}
	}
	if len(k.amounts) == 0 || len(k.labels) == 0 || len(k.namespaces) == 0 {
		t.Error("nothing was shared")
	}
}

func randomNeighbours(random *rand.Rand) *corev1.Pod {
	p := randomRequests(random)
	p.Namespace = []string{"", "a", "b"}[random.IntN(3)]
	p.Labels = map[string]string{"app": "web"}
	selector := func() *metav1.LabelSelector {
		labels := map[string]string{}
		for range random.IntN(3) {
			labels[[]string{"app", "tier"}[random.IntN(2)]] = []string{"web", "db", ""}[random.IntN(3)]
		}
		return &metav1.LabelSelector{MatchLabels: labels}
	}
	var keys []string
	if random.IntN(4) == 0 {
		keys = []string{"app"}
	}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone", MaxSkew: 1, LabelSelector: selector(), MatchLabelKeys: keys}}
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: "zone", LabelSelector: selector(), MismatchLabelKeys: keys},
	}}}
	return p
}

// A cluster whose pods all differ does not fill the tables for good.
func TestConverterForgets(t *testing.T) {
	var k Converter
	for i := range shareable + 10 {
		k.namespace(fmt.Sprint(i))
	}
	if len(k.namespaces) > shareable {
		t.Errorf("%d values are kept", len(k.namespaces))
	}
}
