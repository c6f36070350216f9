// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"math"

	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

const (
	mebibyte = int64(1) << 20
	gibibyte = int64(1) << 30
)

// A nodeOverhead is the part of a node that pods cannot use.
type nodeOverhead struct {
	milliCPU         int64
	memory, eviction int64 // bytes
	storage          int64 // bytes: the kubelet evicts below a tenth of the disk
}

// bootstrap returns the overhead in the units of the kubelet's settings.
func (r nodeOverhead) bootstrap() bootstrap.Overhead {
	return bootstrap.Overhead{MilliCPU: r.milliCPU, MemoryMiB: r.memory / mebibyte, EvictionMiB: r.eviction / mebibyte}
}

// nodeOverheadFor follows AKS. Since Kubernetes 1.29 AKS reserves memory by the number of pods, and
// before that by a table; CPU has always been reserved by a table.
func nodeOverheadFor(vcpus, memoryMiB, maxPods, diskGB int64, minor int) nodeOverhead {
	r := nodeOverhead{milliCPU: reservedCPU(vcpus), storage: diskGB * sku.Gigabyte / 10}
	if minor == 0 || minor >= 29 {
		r.memory = min(20*maxPods+50, memoryMiB/4) * mebibyte
		r.eviction = 100 * mebibyte
		return r
	}
	r.memory = reservedMemoryBefore129(memoryMiB) * mebibyte
	r.eviction = 750 * mebibyte
	return r
}

// reservedCPU in milli-cores: 6 % of the first core, 4 % of the second, 2 % of
// the third and fourth, 1 % of the rest.
func reservedCPU(vcpus int64) int64 {
	return sumBrackets(vcpus*1000, []bracket{{1000, 0.06}, {1000, 0.04}, {2000, 0.02}, {math.MaxInt64, 0.01}})
}

// reservedMemoryBefore129 in MiB: 25 % of the first 4 GiB, 20 % of the next 4,
// 10 % of the next 8, 6 % of the next 112, 2 % of the rest.
func reservedMemoryBefore129(memoryMiB int64) int64 {
	return sumBrackets(memoryMiB, []bracket{{4096, 0.25}, {4096, 0.20}, {8192, 0.10}, {112 * 1024, 0.06}, {math.MaxInt64, 0.02}})
}

type bracket struct {
	width int64
	share float64
}

// sumBrackets adds up the share of each bracket that the amount reaches into.
func sumBrackets(amount int64, brackets []bracket) int64 {
	var sum float64
	for _, b := range brackets {
		part := min(amount, b.width)
		sum += float64(part) * b.share
		amount -= part
	}
	return int64(sum + 1e-6) // 0.06 and similar values are not exact in binary
}

// amounts returns the overhead as amounts.
func (r nodeOverhead) amounts() quantity.Amounts {
	return quantity.Amounts{
		quantity.NameCPU:     r.milliCPU,
		quantity.NameMemory:  r.memory + r.eviction,
		quantity.NameStorage: r.storage,
	}
}

// usableMemory returns how much of a size's advertised memory the operating system sees, in
// bytes.
func usableMemory(memoryMiB int64, share float64) int64 {
	bytes := memoryMiB * mebibyte
	return bytes - int64(math.Ceil(float64(bytes)*share))
}
