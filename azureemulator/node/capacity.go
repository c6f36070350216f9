// SPDX-License-Identifier: Apache-2.0

package node

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

const (
	resourceNVIDIA corev1.ResourceName = "nvidia.com/gpu"

	kibibyte = 1 << 10
	gibibyte = 1 << 30
	// memoryVisible is the share of a size's advertised memory a kubelet gets to
	// see. Firmware, the hypervisor's own pages, the kernel and its page tables
	// keep the rest: 3 to 4 % on most sizes.
	memoryVisible = 0.965
	// diskVisible is the share of the OS disk that is the root file system: 128 GB
	// disks report 129886128 KiB.
	diskVisible = 0.9677
)

// hardware is what the kubelet finds on the VM.
type hardware struct {
	cpus, memory, disk, gpus int64
	arch                     string
}

// observe is the VM seen from inside: diskGiB is its OS disk.
func observe(size catalog.Size, diskGiB int64) hardware {
	h := hardware{
		cpus:   int64(size.VCPUsAvailable),
		memory: wholeKiB(size.MemoryGiB * gibibyte * memoryVisible),
		disk:   wholeKiB(float64(diskGiB) * gibibyte * diskVisible),
		arch:   "amd64",
	}
	if strings.EqualFold(size.Architecture, "Arm64") {
		h.arch = "arm64"
	}
	if hasNVIDIA(size) {
		h.gpus = int64(size.GPUs)
	}
	return h
}

func wholeKiB(bytes float64) int64 { return int64(bytes) / kibibyte * kibibyte }

// capacity is all the node has when it registers. GPUs show only where the image installed their
// driver: without it no device plugin finds them.
func capacity(h hardware, p Payload) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(h.cpus, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(h.memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(h.disk, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(p.Kubelet.podLimit(h.cpus), resource.DecimalSI),
	}
	if p.GPUDriver && h.gpus > 0 {
		list[resourceNVIDIA] = *resource.NewQuantity(h.gpus, resource.DecimalSI)
	}
	return list
}

func (k KubeletConfig) podLimit(cpus int64) int64 {
	if k.PodsPerCore > 0 {
		return min(k.MaxPods, k.PodsPerCore*cpus)
	}
	return k.MaxPods
}

// allocatable is capacity less what is reserved and what must stay free to
// avoid evictions; never less than nothing.
func allocatable(capacity corev1.ResourceList, k KubeletConfig) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, q := range capacity {
		left := q.DeepCopy()
		left.Sub(k.Reserved[name])
		left.Sub(k.evictionReserve(name, q))
		if left.Sign() < 0 {
			left = *resource.NewQuantity(0, q.Format)
		}
		list[name] = left
	}
	return list
}

// evictionReserve is how much of a resource hard eviction keeps free.
func (k KubeletConfig) evictionReserve(name corev1.ResourceName, capacity resource.Quantity) resource.Quantity {
	signals := map[corev1.ResourceName]string{
		corev1.ResourceMemory:           "memory.available",
		corev1.ResourceEphemeralStorage: "nodefs.available",
	}
	for _, t := range k.Eviction {
		if t.Signal != signals[name] {
			continue
		}
		if t.Fraction > 0 {
			return *resource.NewQuantity(int64(math.Floor(float64(capacity.Value())*t.Fraction)), capacity.Format)
		}
		return t.Amount
	}
	return resource.Quantity{}
}
