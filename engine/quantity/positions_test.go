// SPDX-License-Identifier: Apache-2.0

package quantity_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/quantity"
)

// placed lists the extended resources that have a position, by position.
func placed(p *quantity.Positions, names []string) []string {
	var out []string
	for d := range quantity.Dim(p.Len()) {
		if name := p.Name(d); slices.Contains(names, name) {
			if at, ok := p.Position(name); ok && at == d {
				out = append(out, name)
			}
		}
	}
	return out
}

// TestPositions (Rule POD-7, Rule POD-9): a resource has a position while something offers it
// and something requests it, and positions follow the names.
func TestPositions(t *testing.T) {
	p := quantity.NewPositions()
	disks, gpu, fpga, odd := quantity.Attachable+"disk", "nvidia.com/gpu", "example.com/fpga", "example.com/odd"
	all := []string{disks, gpu, fpga, odd}
	for _, step := range []struct {
		name  string
		count func()
		want  []string
	}{
		{"asked for", func() { p.AddRequest(odd, 1); p.AddRequest(gpu, 1); p.AddRequest(disks, 1) }, nil},
		{"offered", func() { p.AddOffers(quantity.Catalogs, quantity.Amounts{gpu: 1, fpga: 1}, 1) }, []string{gpu}},
		{"none of it is no offer", func() { p.AddOffers(quantity.Nodes, quantity.Amounts{odd: 0}, 1) }, []string{gpu}},
		{"a limit of none is a limit", func() { p.AddOffers(quantity.Nodes, quantity.Amounts{disks: 0}, 1) }, []string{disks, gpu}},
		{"before others by name", func() { p.AddRequest(fpga, 2) }, []string{disks, fpga, gpu}},
		{"still asked for", func() { p.AddRequest(fpga, -1) }, []string{disks, fpga, gpu}},
		{"not asked for", func() { p.AddRequest(fpga, -1) }, []string{disks, gpu}},
		{"not offered", func() { p.AddOffers(quantity.Catalogs, quantity.Amounts{gpu: 1, fpga: 1}, -1) }, []string{disks}},
		{"again", func() { p.AddRequest(fpga, 1); p.AddOffers(quantity.Nodes, quantity.Amounts{gpu: 1, fpga: 1}, 1) }, []string{disks, fpga, gpu}},
	} {
		step.count()
		p.AssignPositions()
		if diff := cmp.Diff(step.want, placed(p, all)); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

// TestAskedWithoutPosition (Rule POD-7): requests for resources that nothing offers all
// count at one position, of which no node has any. Volumes that no node limits count
// nowhere.
func TestAskedWithoutPosition(t *testing.T) {
	p := quantity.NewPositions()
	request := quantity.Amounts{"cpu": 500, "example.com/a": 3, "example.com/b": 1, "example.com/none": 0, quantity.Attachable + "disk": 2}
	want := quantity.Vector{quantity.CPU: 500, quantity.NoPosition: 1}
	if got := p.RequestVector(request); got != want {
		t.Errorf("asked %v, want %v", got, want)
	}
	room := p.CapacityVector(quantity.Amounts{"cpu": 4000, "example.com/a": 8})
	if room.Holds(&want) {
		t.Error("a node has room for what has no position")
	}
}

// TestAssignPositionsTellsWhatChanged (Rule POD-8): a resource that keeps its position moves no
// other, and only the Vectors of requests for it must be computed again.
func TestAssignPositionsTellsWhatChanged(t *testing.T) {
	p := quantity.NewPositions()
	plugin := func(by int) { p.AddOffers(quantity.Nodes, quantity.Amounts{"example.com/b": 1}, by) }
	for _, step := range []struct {
		name    string
		count   func()
		changed []string
		moved   bool
	}{
		{"nothing", func() {}, nil, false},
		{"a first one", func() { p.AddRequest("example.com/b", 1); plugin(1) }, []string{"example.com/b"}, true},
		{"its plugin goes", func() { plugin(-1) }, []string{"example.com/b"}, false},
		{"and comes", func() { plugin(1) }, []string{"example.com/b"}, false},
		{"goes and comes unseen", func() { plugin(-1); plugin(1) }, nil, false},
		{"one more offers it", func() { plugin(1) }, nil, false},
		{"nothing offers this", func() { p.AddRequest("example.com/a", 1) }, nil, false},
	} {
		step.count()
		changed, moved := p.AssignPositions()
		if !slices.Equal(changed, step.changed) || moved != step.moved {
			t.Errorf("%s: %v and %v, want %v and %v", step.name, changed, moved, step.changed, step.moved)
		}
	}
}

// TestPositionsAreShared (Rule POD-10): when there are more resources than positions, attach
// limits come first, then resources that catalogs offer, then resources that only nodes
// offer, each by name, whatever the order of arrival.
func TestPositionsAreShared(t *testing.T) {
	var names []string
	offer := map[string]quantity.Source{}
	for i := range quantity.Extended {
		node, sold := fmt.Sprintf("a.example.com/%02d", i), fmt.Sprintf("b.example.com/%02d", i)
		offer[node], offer[sold] = quantity.Nodes, quantity.Catalogs
		names = append(names, node, sold)
	}
	if quantity.Extended != 19 {
		t.Errorf("rule POD-10 says 19 resources, there are positions for %d", quantity.Extended)
	}
	disks := quantity.Attachable + "z"
	offer[disks], names = quantity.Nodes, append(names, disks)
	want := []string{disks}
	for i := range quantity.Extended - 1 {
		want = append(want, fmt.Sprintf("b.example.com/%02d", i))
	}
	for seed := range uint64(50) {
		r, p := rand.New(rand.NewPCG(seed, 1)), quantity.NewPositions()
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			p.AddOffers(offer[name], quantity.Amounts{name: 1}, 1)
			p.AddRequest(name, 1)
			if r.IntN(3) == 0 {
				p.AssignPositions()
			}
		}
		p.AssignPositions()
		if diff := cmp.Diff(want, placed(p, names)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		p.AddRequest(disks, -1)
		p.AssignPositions()
		if _, ok := p.Position(fmt.Sprintf("b.example.com/%02d", quantity.Extended-1)); !ok {
			t.Fatalf("seed %d: a position that is free is not given to the next", seed)
		}
	}
}
