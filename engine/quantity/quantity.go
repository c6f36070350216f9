// Package quantity does exact arithmetic on the resources a pod asks for and a
// node offers. A Vector is a plain value: comparable, copyable, never shared by
// pointer, so a planner forks a node's free space with an assignment. The zero
// Vector asks for nothing.
//
// It refuses to parse: amounts arrive as integers in base units (cpu in
// milli-cores, memory and storage in bytes, everything else in whole pieces).
package quantity

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// Names of the resources every node has, spelled as Kubernetes spells them.
const (
	NameCPU     = "cpu"
	NameMemory  = "memory"
	NameStorage = "ephemeral-storage"
	NamePods    = "pods"
	// NameNodes is Karpenter's synthetic resource: one per node, in NodePool limits only.
	NameNodes = "nodes"
)

// Attachable begins the names of the resources that count attached volumes; the
// CSI driver's name follows. A node that does not list one has no limit of it.
const Attachable = "attachable-volumes-csi-"

// Dim is the position of one resource in a Vector.
type Dim int

// The positions that every Space shares; extended resources follow.
const (
	CPU Dim = iota
	Memory
	Storage
	Pods
	// Unoffered stands for all resources without a position of their own. Nothing has
	// any of it, so a pod that asks for one of them fits nowhere.
	Unoffered
	base
)

// Dims is the length of a Vector: the positions that every Space shares and those
// of the extended resources (GPUs, huge pages, devices, attached volumes).
const Dims = 24

// Extended is how many extended resources can have a position at one time.
const Extended = Dims - int(base)

// Most is the largest amount of one resource. Sums saturate here, far below
// overflow, so a typo of 1e18 bytes is merely a pod that fits nowhere.
const Most = math.MaxInt64 / 4

// Amounts is a bag of resources by name, as read from outside.
type Amounts map[string]int64

// Names lists the resources in a, sorted.
func (a Amounts) Names() []string { return slices.Sorted(maps.Keys(a)) }

// Asked lists the resources of a request, the base ones first and then by name.
// Requests of nothing, or below nothing, are left out.
func (a Amounts) Asked() []string {
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

// Add returns a new bag holding a + b, saturating at Most.
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

// Sub returns a new bag holding a - b; amounts may become negative.
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

// Times returns v repeated n times, saturating at Most.
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

// Holds reports whether w can be taken out of v.
func (v *Vector) Holds(w *Vector) bool {
	for d, n := range w {
		if n > 0 && n > v[d] {
			return false
		}
	}
	return true
}

// Fits is how many copies of w can be taken out of v. A w that asks for nothing
// fits any number of times; the answer is then the largest int32.
func (v *Vector) Fits(w *Vector) int {
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

// IsZero reports whether v asks for nothing.
func (v Vector) IsZero() bool { return v == Vector{} }

func clamp(n int64) int64 { return max(-Most, min(Most, n)) }

// Format writes an amount as people do: cpu in cores, memory and storage in
// binary units, everything else as a count.
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
