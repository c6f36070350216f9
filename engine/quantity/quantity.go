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
	"strings"
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
	base
)

// Dims is how many resources a Vector can hold: four that every node has and the
// extended ones (GPUs, huge pages, devices) that some pod of one World asks for.
const Dims = 20

// Most is the largest amount of one resource. Sums saturate here, far below
// overflow, so a typo of 1e18 bytes is merely a pod that fits nowhere.
const Most = math.MaxInt64 / 4

// Amounts is a bag of resources by name, as read from outside.
type Amounts map[string]int64

// Names lists the resources in a, sorted.
func (a Amounts) Names() []string { return slices.Sorted(maps.Keys(a)) }

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

// Space gives every resource name its position. It only grows, so Vectors made
// early stay valid. The zero Space is not usable; see NewSpace.
type Space struct {
	names  []string
	dims   map[string]Dim
	attach []Dim // those that begin with Attachable
}

// NewSpace returns a Space that knows the four base resources.
func NewSpace() *Space {
	s := &Space{dims: map[string]Dim{}}
	for _, name := range []string{NameCPU, NameMemory, NameStorage, NamePods} {
		s.Dim(name)
	}
	return s
}

// Dim returns the position of a resource, giving it one when it is new. It
// reports false when the Space is full: the caller must then treat the resource
// as one that nothing offers.
func (s *Space) Dim(name string) (Dim, bool) {
	if d, ok := s.dims[name]; ok {
		return d, true
	}
	if len(s.names) == Dims {
		return 0, false
	}
	d := Dim(len(s.names))
	s.names = append(s.names, name)
	s.dims[name] = d
	if strings.HasPrefix(name, Attachable) {
		s.attach = append(s.attach, d)
	}
	return d, true
}

// Lookup is Dim for readers: it never grows the Space.
func (s *Space) Lookup(name string) (Dim, bool) {
	d, ok := s.dims[name]
	return d, ok
}

// Name returns the resource at position d.
func (s *Space) Name(d Dim) string { return s.names[d] }

// Len is the number of resources known.
func (s *Space) Len() int { return len(s.names) }

// Offered turns what a node or machine type provides into a Vector. Resources
// without a position are dropped: no pod in this Space asks for them. Attachments
// that are not listed are unlimited.
func (s *Space) Offered(a Amounts) Vector {
	var v Vector
	for _, d := range s.attach {
		v[d] = Most
	}
	for name, n := range a {
		if d, ok := s.dims[name]; ok {
			v[d] = clamp(n)
		}
	}
	return v
}

// Asked turns a request into a Vector and gives new resources a position. It
// returns the names that found no room; a pod that asks for one fits nowhere.
func (s *Space) Asked(a Amounts) (Vector, []string) {
	var v Vector
	var left []string
	for _, name := range a.Names() {
		n := a[name]
		if n <= 0 {
			continue // nobody brings room along
		}
		d, ok := s.Dim(name)
		if !ok {
			left = append(left, name)
			continue
		}
		v[d] = clamp(n)
	}
	return v, left
}

// Amounts turns v back into a bag, leaving zeros out.
func (s *Space) Amounts(v Vector) Amounts {
	a := Amounts{}
	for d, name := range s.names {
		if v[d] != 0 {
			a[name] = v[d]
		}
	}
	return a
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
