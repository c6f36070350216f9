// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// seed is that of every scenario.
const seed = 42

// random draws the parts of workloads.
type random struct{ *rand.Rand }

func newRandom() random { return random{rand.New(rand.NewPCG(seed, seed))} }

func oneOf[T any](r random, values ...T) T { return values[r.IntN(len(values))] }

func mib(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }

func milli(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }

func requests(milliCPU, memoryMiB int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: milli(milliCPU), corev1.ResourceMemory: mib(memoryMiB)}
}

// request draws from the amounts of upstream's own benchmark.
func (r random) request() corev1.ResourceList {
	cpu := oneOf[int64](r, 100, 250, 500, 1000, 1500)
	return requests(cpu, oneOf[int64](r, 100, 256, 512, 1024, 2048, 4096))
}

// label draws one of seven values for a label.
func (r random) label(key string) map[string]string {
	return map[string]string{key: oneOf(r, "a", "b", "c", "d", "e", "f", "g")}
}

func quantityOf(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

// Shuffled returns the pods in another order, always the same.
func Shuffled(pods []*corev1.Pod) []*corev1.Pod {
	out := slices.Clone(pods)
	newRandom().Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
