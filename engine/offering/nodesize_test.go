// SPDX-License-Identifier: Apache-2.0

package offering_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Capacity is the largest of all types, Allocatable the smallest, whatever their order. A type
// without a limit on attached volumes does not lower that of the others.
func TestNodeSize(t *testing.T) {
	const disk = quantity.Attachable + "disk"
	small := &offering.InstanceType{
		Name: "small", Capacity: quantity.Amounts{quantity.NameCPU: 2000, disk: 4}, Overhead: quantity.Amounts{quantity.NameCPU: 100},
	}
	large := &offering.InstanceType{
		Name: "large", Capacity: quantity.Amounts{quantity.NameCPU: 8000, "gpu": 1}, Overhead: quantity.Amounts{quantity.NameCPU: 200},
	}
	for _, types := range [][]*offering.InstanceType{{small, large}, {large, small}, {small, large, small}} {
		var got offering.NodeSize
		for _, it := range types {
			got.Include(it)
		}
		if diff := cmp.Diff(quantity.Amounts{quantity.NameCPU: 8000, disk: 4, "gpu": 1}, got.Capacity); diff != "" {
			t.Errorf("capacity:\n%s", diff)
		}
		delete(got.Allocatable, "gpu") // zero or missing: the same
		if diff := cmp.Diff(quantity.Amounts{quantity.NameCPU: 1900, disk: 4}, got.Allocatable); diff != "" {
			t.Errorf("allocatable:\n%s", diff)
		}
	}
	catalog := offering.Compile(constraint.NewInterner(), quantity.NewPositions(), []offering.InstanceType{*small, *large})
	for _, refs := range [][]offering.Ref{{{Type: "large"}, {Type: "small"}, {Type: "large", Zone: "2"}, {Type: "unknown"}}, {{Type: "small"}}, {}} {
		var want offering.NodeSize
		for _, ref := range refs {
			if it := catalog.InstanceType(ref.Type); it != nil {
				want.Include(it)
			}
		}
		for range 2 { // what is returned is the caller's to change
			got := catalog.NodeSize(refs)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("node of %v:\n%s", refs, diff)
			}
			clear(got.Capacity)
			clear(got.Allocatable)
		}
	}
	if small.Capacity[quantity.NameCPU] != 2000 || large.Capacity["gpu"] != 1 {
		t.Error("Include changed an instance type")
	}
}
