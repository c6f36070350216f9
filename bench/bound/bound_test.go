// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

func all(n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = true
	}
	return out
}

func near(got, want float64) bool { return got <= want*(1+1e-6) && got >= want*(1-precise) }

// TestKnown: bounds that can be computed by hand.
func TestKnown(t *testing.T) {
	for name, c := range map[string]struct {
		nodeTypes []NodeType
		groups    []Group
		want      float64
	}{
		"one whole pod on each node":     {[]NodeType{{[]float64{4}, 1}}, []Group{{10, []float64{3}, all(1), 0, nil}}, 10},
		"the rest of a node is used":     {[]NodeType{{[]float64{4}, 1}}, []Group{{10, []float64{3}, all(1), 0, nil}, {10, []float64{1}, all(1), 0, nil}}, 10},
		"the better of two nodeTypes":    {[]NodeType{{[]float64{4}, 1}, {[]float64{6}, 1.6}}, []Group{{10, []float64{3}, all(2), 0, nil}}, 8},
		"a type that takes no such pods": {[]NodeType{{[]float64{4}, 1}, {[]float64{6}, 0.1}}, []Group{{10, []float64{3}, []bool{true, false}, 0, nil}}, 10},
		"one pod per node by a resource": {[]NodeType{{[]float64{9, 1}, 1}}, []Group{{7, []float64{1, 1}, all(1), 0, nil}, {7, []float64{1, 0}, all(1), 0, nil}}, 7},
		"groups that share no node":      {[]NodeType{{[]float64{9}, 1}}, []Group{{2, []float64{1}, all(1), 1, nil}, {3, []float64{1}, all(1), 1, nil}, {4, []float64{1}, all(1), 1, nil}}, 3},
		"others go beside them":          {[]NodeType{{[]float64{9}, 1}}, []Group{{2, []float64{1}, all(1), 1, nil}, {3, []float64{1}, all(1), 1, nil}, {13, []float64{1}, all(1), 0, nil}}, 2},
		"nothing":                        {[]NodeType{{[]float64{9}, 1}}, []Group{{0, []float64{1}, all(1), 0, nil}}, 0},
	} {
		got, err := Least(c.nodeTypes, c.groups, nil)
		if err != nil || !near(got.Price, c.want) || math.Abs(got.Upper-c.want) > 1e-9 {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
}

// TestNodesThatAreThere: what goes there needs no new node; no more than what fits, of pods that it takes.
func TestNodesThatAreThere(t *testing.T) {
	nodeTypes := []NodeType{{[]float64{4}, 1}}
	for name, c := range map[string]struct {
		into  []bool
		rooms []float64
		want  float64
	}{
		"none":                    {nil, nil, 10},
		"room for two":            {[]bool{true}, []float64{7}, 8},
		"one of two takes them":   {[]bool{true, false}, []float64{3, 9}, 9},
		"room for more than all":  {[]bool{true}, []float64{99}, 0},
		"no room for a whole pod": {[]bool{true, true}, []float64{2, 2}, 10},
	} {
		var nodes []Node
		for _, room := range c.rooms {
			nodes = append(nodes, Node{[]float64{room}})
		}
		got, err := Least(nodeTypes, []Group{{10, []float64{3}, all(1), 0, c.into}}, nodes)
		if err != nil || math.Abs(got.Price-c.want) > 10*precise {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestNoNodeTypeTakesThem(t *testing.T) {
	for name, g := range map[string]Group{"too large": {1, []float64{10}, all(1), 0, nil}, "not admitted": {1, []float64{1}, []bool{false}, 0, nil}} {
		if got, err := Least([]NodeType{{[]float64{9}, 1}}, []Group{g}, nil); err == nil {
			t.Errorf("%s: the bound is %+v, want an error", name, got)
		}
	}
}

// TestAgainstAllColumns: the bound is that of the linear program with every column there is, at most
// precise below it; and no plan of whole nodes is cheaper.
func TestAgainstAllColumns(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		nodeTypes, groups := random(r)
		got, err := Least(nodeTypes, groups, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := ofAllColumns(t, nodeTypes, groups)
		if !near(got.Price, want) || got.Upper < want*(1-1e-6) {
			t.Errorf("seed %d: bound %+v, the linear program costs %v", seed, got, want)
		}
		if plan := firstFit(r, nodeTypes, groups); plan < got.Price*(1-1e-9) {
			t.Errorf("seed %d: a plan costs %v, the bound is %v", seed, plan, got.Price)
		}
	}
}

func random(r *rand.Rand) ([]NodeType, []Group) {
	nodeTypes := []NodeType{{[]float64{16, 32, 2}, 3}}
	for range 1 + r.IntN(4) {
		cpu := float64(2 + r.IntN(12))
		nodeTypes = append(nodeTypes, NodeType{[]float64{cpu, cpu * float64(1+r.IntN(3)), 1}, cpu * (0.1 + r.Float64()/5)})
	}
	groups := make([]Group, 1+r.IntN(5))
	for i := range groups {
		groups[i] = Group{1 + r.IntN(20), []float64{float64(1 + r.IntN(5)), float64(1 + r.IntN(8)), 0}, all(len(nodeTypes)), 0, nil}
		for k := range nodeTypes[1:] {
			groups[i].On[1+k] = r.IntN(3) > 0
		}
		switch r.IntN(3) {
		case 0:
			groups[i].Requests[2] = 1
		case 1:
			groups[i].Exclusive = 1
		}
	}
	return nodeTypes, groups
}

// ofAllColumns lists every set of pods that fits on each node type; gonum solves the linear program.
func ofAllColumns(t *testing.T, nodeTypes []NodeType, groups []Group) float64 {
	var columns []column
	for k, nodeType := range nodeTypes {
		counts := make([]int, len(groups))
		var each func(g int, room []float64, shares float64)
		each = func(g int, room []float64, shares float64) {
			if g == len(groups) {
				if slices.Max(counts) > 0 {
					columns = append(columns, column{slices.Clone(counts), nodeType.Price})
				}
				return
			}
			most := 0
			if groups[g].On[k] {
				most = groups[g].Pods
				for d, r := range groups[g].Requests {
					if r > 0 {
						most = min(most, int(nodeType.Room[d]/r))
					}
				}
			}
			for n := 0; n <= most; n++ {
				left, sum, fits := slices.Clone(room), shares, true
				for d, r := range groups[g].Requests {
					left[d] -= float64(n) * r
					fits = fits && left[d] >= 0
				}
				if groups[g].Exclusive > 0 && n > 0 {
					sum += float64(n) / float64(most)
				}
				if fits && sum < 1+1e-9 {
					counts[g] = n
					each(g+1, left, sum)
				}
			}
			counts[g] = 0
		}
		each(0, nodeType.Room, 0)
	}
	// Equations: the columns hold all pods of each group, and maybe more.
	price, holds, pods := make([]float64, len(columns)+len(groups)), mat.NewDense(len(groups), len(columns)+len(groups), nil), make([]float64, len(groups))
	for g, group := range groups {
		pods[g] = float64(group.Pods)
		holds.Set(g, len(columns)+g, -1)
		for i, c := range columns {
			price[i] = c.price
			holds.Set(g, i, float64(c.counts[g]))
		}
	}
	least, _, err := lp.Simplex(price, holds, pods, 1e-10, nil)
	if err != nil {
		t.Fatal(err)
	}
	return least
}

// firstFit puts the pods, in a random order, on the first node with room, or on a new one of a random
// type that takes them.
func firstFit(r *rand.Rand, nodeTypes []NodeType, groups []Group) float64 {
	type node struct {
		nodeType, group int // of the exclusive groups: one more than the one it has
		room            []float64
	}
	var nodes []*node
	var pods []int
	for g, group := range groups {
		for range group.Pods {
			pods = append(pods, g)
		}
	}
	r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	put := func(n *node, g int) bool {
		if !groups[g].On[n.nodeType] || groups[g].Exclusive > 0 && n.group != 0 && n.group != g+1 {
			return false
		}
		for d, q := range groups[g].Requests {
			if n.room[d] < q {
				return false
			}
		}
		for d, q := range groups[g].Requests {
			n.room[d] -= q
		}
		if groups[g].Exclusive > 0 {
			n.group = g + 1
		}
		return true
	}
	price := 0.0
next:
	for _, g := range pods {
		for _, n := range nodes {
			if put(n, g) {
				continue next
			}
		}
		for {
			n := &node{nodeType: r.IntN(len(nodeTypes))}
			n.room = append(n.room, nodeTypes[n.nodeType].Room...)
			if put(n, g) {
				nodes, price = append(nodes, n), price+nodeTypes[n.nodeType].Price
				continue next
			}
		}
	}
	return price
}
