// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"math"
	"math/rand/v2"
	"testing"
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
		kinds  []Kind
		groups []Group
		want   float64
	}{
		"one whole pod on each node":     {[]Kind{{[]float64{4}, 1}}, []Group{{10, []float64{3}, all(1), 0, nil}}, 10},
		"the rest of a node is used":     {[]Kind{{[]float64{4}, 1}}, []Group{{10, []float64{3}, all(1), 0, nil}, {10, []float64{1}, all(1), 0, nil}}, 10},
		"the better of two kinds":        {[]Kind{{[]float64{4}, 1}, {[]float64{6}, 1.6}}, []Group{{10, []float64{3}, all(2), 0, nil}}, 8},
		"a kind that takes no such pods": {[]Kind{{[]float64{4}, 1}, {[]float64{6}, 0.1}}, []Group{{10, []float64{3}, []bool{true, false}, 0, nil}}, 10},
		"one pod per node by a resource": {[]Kind{{[]float64{9, 1}, 1}}, []Group{{7, []float64{1, 1}, all(1), 0, nil}, {7, []float64{1, 0}, all(1), 0, nil}}, 7},
		"groups that share no node":      {[]Kind{{[]float64{9}, 1}}, []Group{{2, []float64{1}, all(1), 1, nil}, {3, []float64{1}, all(1), 1, nil}, {4, []float64{1}, all(1), 1, nil}}, 3},
		"others go beside them":          {[]Kind{{[]float64{9}, 1}}, []Group{{2, []float64{1}, all(1), 1, nil}, {3, []float64{1}, all(1), 1, nil}, {13, []float64{1}, all(1), 0, nil}}, 2},
		"nothing":                        {[]Kind{{[]float64{9}, 1}}, []Group{{0, []float64{1}, all(1), 0, nil}}, 0},
	} {
		got, err := Least(c.kinds, c.groups, nil)
		if err != nil || !near(got.Price, c.want) || !near(c.want, got.Upper/(1-precise)) && c.want > 0 {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
}

// TestNodesThatAreThere: what goes there needs no new node; no more than what fits, of pods that it takes.
func TestNodesThatAreThere(t *testing.T) {
	kinds := []Kind{{[]float64{4}, 1}}
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
		got, err := Least(kinds, []Group{{10, []float64{3}, all(1), 0, c.into}}, nodes)
		if err != nil || math.Abs(got.Price-c.want) > 10*precise {
			t.Errorf("%s: %+v, %v; want %v", name, got, err, c.want)
		}
	}
}

func TestNoKindTakesThem(t *testing.T) {
	for name, g := range map[string]Group{"too large": {1, []float64{10}, all(1), 0, nil}, "not admitted": {1, []float64{1}, []bool{false}, 0, nil}} {
		if got, err := Least([]Kind{{[]float64{9}, 1}}, []Group{g}, nil); err == nil {
			t.Errorf("%s: the bound is %+v, want an error", name, got)
		}
	}
}

// TestAgainstAllColumns: the bound is that of the linear program with every column there is, at most
// precise below it; and no plan of whole nodes is cheaper.
func TestAgainstAllColumns(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		kinds, groups := random(r)
		got, err := Least(kinds, groups, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := ofAllColumns(kinds, groups)
		if !near(got.Price, want) || got.Upper < want*(1-1e-6) {
			t.Errorf("seed %d: bound %+v, the linear program costs %v", seed, got, want)
		}
		if plan := firstFit(r, kinds, groups); plan < got.Price*(1-1e-9) {
			t.Errorf("seed %d: a plan costs %v, the bound is %v", seed, plan, got.Price)
		}
	}
}

func random(r *rand.Rand) ([]Kind, []Group) {
	kinds := []Kind{{[]float64{16, 32, 2}, 3}}
	for range 1 + r.IntN(4) {
		cpu := float64(2 + r.IntN(12))
		kinds = append(kinds, Kind{[]float64{cpu, cpu * float64(1+r.IntN(3)), 1}, cpu * (0.1 + r.Float64()/5)})
	}
	groups := make([]Group, 1+r.IntN(5))
	for i := range groups {
		groups[i] = Group{1 + r.IntN(20), []float64{float64(1 + r.IntN(5)), float64(1 + r.IntN(8)), 0}, all(len(kinds)), 0, nil}
		for k := range kinds[1:] {
			groups[i].On[1+k] = r.IntN(3) > 0
		}
		switch r.IntN(3) {
		case 0:
			groups[i].Requests[2] = 1
		case 1:
			groups[i].Exclusive = 1
		}
	}
	return kinds, groups
}

// ofAllColumns lists every set of pods that fits on each kind and solves the linear program.
func ofAllColumns(kinds []Kind, groups []Group) float64 {
	m := newMaster(groups)
	for k, kind := range kinds {
		counts := make([]int, len(groups))
		var each func(g int, room []float64, shares float64)
		each = func(g int, room []float64, shares float64) {
			if g == len(groups) {
				m.add(column{append([]int(nil), counts...), kind.Price})
				return
			}
			most := 0
			if groups[g].On[k] {
				most = groups[g].Pods
				for d, r := range groups[g].Requests {
					if r > 0 {
						most = min(most, int(kind.Room[d]/r))
					}
				}
			}
			for n := 0; n <= most; n++ {
				left, sum, fits := append([]float64(nil), room...), shares, true
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
		each(0, kind.Room, 0)
	}
	m.solve()
	return m.value
}

// firstFit puts the pods, in a random order, on the first node with room, or on a new one of a random kind
// that takes them.
func firstFit(r *rand.Rand, kinds []Kind, groups []Group) float64 {
	type node struct {
		kind, group int // of the exclusive groups: one more than the one it has
		room        []float64
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
		if !groups[g].On[n.kind] || groups[g].Exclusive > 0 && n.group != 0 && n.group != g+1 {
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
			n := &node{kind: r.IntN(len(kinds))}
			n.room = append(n.room, kinds[n.kind].Room...)
			if put(n, g) {
				nodes, price = append(nodes, n), price+kinds[n.kind].Price
				continue next
			}
		}
	}
	return price
}

// TestDualSimplex: rows that are added later give the same optimum as rows that were there from the start.
func TestDualSimplex(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		vars := 1 + r.IntN(6)
		whole, later := newTableau(vars), newTableau(vars)
		for i := range vars {
			whole.gain[i] = 1
			later.gain[i] = 1
		}
		add := func(row []float64, rhs float64) {
			whole.addRow(row, rhs)
			later.addRow(row, rhs)
		}
		for i := range vars {
			row := make([]float64, vars)
			row[i] = 1
			add(row, 1+r.Float64())
		}
		later.primal()
		for range 8 {
			row := make([]float64, vars)
			for i := range row {
				row[i] = float64(r.IntN(4))
			}
			add(row, 0.5+2*r.Float64())
			later.dual()
		}
		whole.primal()
		if math.Abs(whole.value-later.value) > 1e-6 {
			t.Errorf("seed %d: %v at once, %v one after the other", seed, whole.value, later.value)
		}
	}
}
