// SPDX-License-Identifier: Apache-2.0

// Package quantity does exact arithmetic on the resources that a pod requests and a node
// offers. A Vector is a plain value: it is comparable, is copied by assignment, and is never
// shared by pointer. The zero Vector requests nothing.
//
// The package parses no quantities: amounts arrive as integers in base units (cpu in
// millicores, memory and storage in bytes, everything else in whole units).
package quantity

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// Names of the resources that every node has, spelled as Kubernetes spells them.
const (
	NameCPU     = "cpu"
	NameMemory  = "memory"
	NameStorage = "ephemeral-storage"
	NamePods    = "pods"
	// NameNodes is Karpenter's synthetic resource: one per node, in NodePool limits only.
	NameNodes = "nodes"
)

// Attachable is the prefix of the resource names that count attached volumes; the CSI
// driver's name follows. A node that does not list such a resource has no limit for the
// driver.
const Attachable = "attachable-volumes-csi-"

// Dim is the position of one resource in a Vector.
type Dim int

// The positions that all Positions share; extended resources follow.
const (
	CPU Dim = iota
	Memory
	Storage
	Pods
	// NoPosition stands for all resources without a position of their own. The Vectors of nodes
	// are zero here, so a pod that requests one of them fits nowhere.
	NoPosition
	base
)

// Dims is the length of a Vector: the positions that all Positions share, and those of
// extended resources (GPUs, huge pages, devices, attached volumes).
const Dims = 24

// Extended is how many extended resources can have a position at one time.
const Extended = Dims - int(base)

// Most is the largest amount of one resource. Sums saturate here, far below overflow, so a
// typo of 1e18 bytes makes a pod that fits nowhere, and does no other harm.
const Most = math.MaxInt64 / 4

// Amounts are amounts of resources by name, as in a manifest.
type Amounts map[string]int64

// Names lists the resources in a, sorted.
func (a Amounts) Names() []string { return slices.Sorted(maps.Keys(a)) }

// RequestedNames lists the resources of a request: the base resources first, then the others
// by name. Amounts of zero and below are left out.
func (a Amounts) RequestedNames() []string {
	var out, extended []string
	for _, name := range []string{NameCPU, NameMemory, NameStorage, NamePods} {
		if a[name] > 0 {
			out = append(out, name)
		}
	}
	for name, n := range a {
		if n > 0 && !slices.Contains(out, name) {
			extended = append(extended, name)
		}
	}
	slices.Sort(extended)
	return append(out, extended...)
}

// Add returns a + b as a new value, saturating at Most.
func (a Amounts) Add(b Amounts) Amounts {
	sum := maps.Clone(a)
	if sum == nil {
		sum = Amounts{}
	}
	for name, n := range b {
		sum[name] = clamp(clamp(sum[name]) + clamp(n))
	}
	return sum
}

// Sub returns a - b as a new value; amounts may become negative.
func (a Amounts) Sub(b Amounts) Amounts {
	diff := maps.Clone(a)
	if diff == nil {
		diff = Amounts{}
	}
	for name, n := range b {
		diff[name] = clamp(clamp(diff[name]) - clamp(n))
	}
	return diff
}

// Vector counts resources in base units, one per Dim.
type Vector [Dims]int64

// Add returns v + w, saturating at Most.
func (v Vector) Add(w Vector) Vector {
	for d := range v {
		v[d] = clamp(v[d] + w[d])
	}
	return v
}

// Sub returns v - w, which may be negative.
func (v Vector) Sub(w Vector) Vector {
	for d := range v {
		v[d] = clamp(v[d] - w[d])
	}
	return v
}

// AddIn adds w to v, or subtracts it (by is 1 or -1), in these resources alone. It saturates at Most.
func (v *Vector) AddIn(dims []Dim, w *Vector, by int64) {
	for _, d := range dims {
		v[d] = clamp(v[d] + by*w[d])
	}
}

// Times returns v multiplied by n, saturating at Most.
func (v Vector) Times(n int) Vector {
	for d := range v {
		if v[d] > 0 && int64(n) > Most/v[d] {
			v[d] = Most
			continue
		}
		v[d] *= int64(n)
	}
	return v
}

// Sum returns a plus n times b, saturating at Most; neither is negative.
func Sum(a, b int64, n int) int64 {
	if n > 1 && b > 0 && int64(n) > Most/b {
		return Most
	}
	return clamp(a + b*int64(n))
}

// Size ranks requests: by cpu or by memory, whichever is the more, in millicores. A GiB of memory
// weighs a quarter of a core, the usual ratio of an instance type.
func Size(cpu, memory int64) int64 {
	return max(0, min(Most, cpu), min(Most, memory)/(4<<30/1000))
}

// Holds reports whether v has at least as much as w of every resource that w requests.
func (v *Vector) Holds(w *Vector) bool {
	for d, n := range w {
		if n > 0 && n > v[d] {
			return false
		}
	}
	return true
}

// CountFitting is how many times w can be subtracted from v. It is the largest int32 for a w that
// requests nothing.
func (v *Vector) CountFitting(w *Vector) int {
	most := int64(math.MaxInt32)
	for d, n := range w {
		if n <= 0 {
			continue
		}
		if v[d] < n {
			return 0
		}
		most = min(most, v[d]/n)
	}
	return int(most)
}

// IsZero reports whether v is all zeros.
func (v Vector) IsZero() bool { return v == Vector{} }

func clamp(n int64) int64 { return max(-Most, min(Most, n)) }

// Format renders an amount for people: cpu in cores, memory and storage in binary units,
// everything else as a count.
func Format(name string, n int64) string {
	switch name {
	case NameCPU:
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	case NameMemory, NameStorage:
		return binary(n)
	}
	return strconv.FormatInt(n, 10)
}

func binary(n int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	f, i := float64(n), 0
	for math.Abs(f) >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) + units[i]
}
