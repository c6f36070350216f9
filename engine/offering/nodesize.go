// SPDX-License-Identifier: Apache-2.0

package offering

import (
	"maps"
	"strings"

	"github.com/karve-dev/karve/engine/quantity"
)

// NodeSize is what a node will have of each resource when it may be launched as any of several
// instance types. The zero NodeSize is that of no type.
type NodeSize struct {
	// Capacity is the largest of all types: it counts against limits.
	Capacity quantity.Amounts
	// Allocatable is the smallest of all types: it is certain to be there for pods. As on a
	// node, a resource that is missing is zero, but attaching volumes is unlimited where no
	// limit is given.
	Allocatable quantity.Amounts
}

// Include adds a type that the node may be launched as.
func (s *NodeSize) Include(t *InstanceType) { s.include(t.Capacity, t.Capacity.Sub(t.Overhead)) }

func (s *NodeSize) include(capacity, allocatable quantity.Amounts) {
	if s.Capacity == nil {
		s.Capacity, s.Allocatable = maps.Clone(capacity), maps.Clone(allocatable)
		return
	}
	for name, n := range capacity {
		s.Capacity[name] = max(s.Capacity[name], n)
	}
	for name, n := range s.Allocatable {
		if other, given := allocatable[name]; given || !unlimitedIfMissing(name) {
			s.Allocatable[name] = min(n, other)
		}
	}
	for name, n := range allocatable {
		if _, given := s.Allocatable[name]; !given && unlimitedIfMissing(name) {
			s.Allocatable[name] = n
		}
	}
}

func unlimitedIfMissing(resource string) bool {
	return strings.HasPrefix(resource, quantity.Attachable)
}
