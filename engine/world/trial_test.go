package world_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/world"
)

// supposition is a Trial side by side with the script that says the same from scratch.
type supposition struct {
	*rand.Rand
	trial  *world.Trial
	script *enginetest.Script
	origin []world.Pod // as they were before; in the order of the script's
	added  map[string]*world.Host
	closed map[string]bool // nodes that took no pods before, or are supposed
	log    []string
}

func (x *supposition) node() *world.Node { return &x.script.Nodes[x.IntN(len(x.script.Nodes))] }

func (x *supposition) host(n *world.Node) *world.Host {
	if h := x.added[n.Key]; h != nil {
		return h
	}
	return x.trial.World().Host(n.Key)
}

// step supposes something, on both sides.
func (x *supposition) step() {
	if len(x.script.Nodes) == 0 {
		return
	}
	n := x.node()
	switch x.IntN(7) {
	case 0:
		other := x.node()
		x.log = append(x.log, "vacate "+n.Key+" and "+other.Key)
		x.trial.Vacate(x.host(n), x.host(other))
		for _, n := range []*world.Node{n, other} {
			n.Leaving, n.Stuck = true, true
			x.bringBack(n.Name)
		}
	case 1:
		x.log = append(x.log, "vacate "+n.Key)
		x.trial.Vacate(x.host(n))
		n.Leaving, n.Stuck = true, true
		x.bringBack(n.Name)
	case 2, 3:
		x.shut(n)
	case 4:
		x.add(n)
	default:
		if !n.Leaving {
			x.settle(n)
		}
	}
}

// shut keeps pods from the node, or lets them in again.
func (x *supposition) shut(n *world.Node) {
	switch {
	case n.Leaving:
		x.trial.Reopen(x.host(n))
	case n.Stuck:
		x.log = append(x.log, "reopen "+n.Key)
		x.trial.Reopen(x.host(n))
		n.Stuck = x.closed[n.Key]
	default:
		x.log = append(x.log, "shut "+n.Key)
		x.trial.Shut(x.host(n))
		n.Stuck = true
	}
}

// bringBack makes pods of a node that was leaving anyhow a matter of the Trial.
func (x *supposition) bringBack(node string) {
	for i := range x.script.Pods {
		if p, was := &x.script.Pods[i], x.origin[i]; enginetest.Homeless(*p) && node != "" && was.Node == node {
			p.Node, p.Movable = was.Node, was.Movable
		}
	}
}

// add supposes one more machine like another.
func (x *supposition) add(like *world.Node) {
	n := *like
	n.Key = fmt.Sprint("added", len(x.script.Nodes))
	n.Name = n.Key
	n.Labels = maps.Clone(like.Labels)
	n.Labels[world.LabelHostname] = n.Key
	n.Labels["new"] = "yes"
	n.Draws = slices.Clone(like.Draws)
	for _, budget := range slices.Sorted(maps.Keys(x.script.Budgets)) {
		if x.IntN(4) == 0 {
			n.Draws = append(n.Draws, offer.Draw{Budget: budget, Amount: 1})
		}
	}
	x.log = append(x.log, "add "+n.Key)
	x.added[n.Key], x.closed[n.Key] = x.trial.Add(n), true
	n.Stuck, n.Leaving = true, false
	x.script.Nodes = append(x.script.Nodes, n)
}

// settle lets some pods run on the node, of those that have no home.
func (x *supposition) settle(n *world.Node) {
	if n.Name == "" {
		n.Name = n.Key // it comes while the pods are on their way
	}
	leaving := map[string]bool{}
	for _, o := range x.script.Nodes {
		leaving[o.Name] = leaving[o.Name] || o.Leaving
	}
	var refs []world.Ref
	for i := range x.script.Pods {
		p := &x.script.Pods[i]
		if x.IntN(3) > 0 || p.Daemon != "" || !(leaving[p.Node] || enginetest.Homeless(*p)) || p.Virtual {
			continue
		}
		p.Node, p.Movable, p.Terminating = n.Name, true, false
		refs = append(refs, p.Ref)
	}
	x.log = append(x.log, fmt.Sprint("settle ", refs, " on ", n.Key))
	x.trial.Settle(append(refs, world.Ref{UID: "unheard of"}), x.host(n))
}

// TestTrialIsTrue: what a Trial supposes is what a Builder makes of the same from
// scratch, whatever is supposed and taken back; and in the end nothing has happened.
func TestTrialIsTrue(t *testing.T) {
	for seed := range uint64(250) {
		script := enginetest.Populated(seed, 30)
		b := script.Builder()
		w := b.World()
		before := ""
		pack.Solve(w) // makes indexes
		before = b.Dump(w)
		indexes := b.Indexes()
		x := &supposition{Rand: rand.New(rand.NewPCG(seed, 3)), trial: w.Try(), script: enginetest.Bare(script), origin: script.Pods, added: map[string]*world.Host{}, closed: map[string]bool{}}
		for _, n := range x.script.Nodes {
			x.closed[n.Key] = n.Stuck
		}
		for range 3 {
			x.steps(t, seed)
			mark, told, nodes := x.trial.Mark(), *x.script, len(x.log)
			x.script.Nodes, x.script.Pods = slices.Clone(told.Nodes), slices.Clone(told.Pods)
			x.steps(t, seed)
			x.trial.Back(mark)
			*x.script, x.log = told, append(x.log[:nodes:nodes], "and back")
			x.compare(t, seed)
		}
		x.trial.End()
		if slices.Equal(indexes, b.Indexes()) {
			if diff := cmp.Diff(before, b.Dump(w)); diff != "" {
				t.Fatalf("seed %d: the world is not what it was:\n%s\nafter %v", seed, diff, x.log)
			}
		}
		if diff := cmp.Diff(enginetest.Print(pack.Solve(script.World())), enginetest.Print(pack.Solve(w))); diff != "" {
			t.Fatalf("seed %d: the world does not give the plan that it gave:\n%s\nafter %v", seed, diff, x.log)
		}
		pack.Solve(b.World())
		if diff := cmp.Diff(fmt.Sprintf("%+v", pack.Solve(script.World())), fmt.Sprintf("%+v", pack.Solve(b.World()))); diff != "" {
			t.Fatalf("seed %d: the Builder has changed:\n%s", seed, diff)
		}
	}
}

func (x *supposition) steps(t *testing.T, seed uint64) {
	t.Helper()
	for range 1 + x.IntN(5) {
		x.step()
	}
	x.compare(t, seed)
}

func (x *supposition) compare(t *testing.T, seed uint64) {
	t.Helper()
	want, got := pack.Solve(enginetest.Vacated(x.script).World()), pack.Solve(x.trial.World())
	if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
		t.Fatalf("seed %d: from scratch (-) and supposed (+):\n%s\nafter %v\n%s", seed, cmp.Diff(enginetest.Print(want), enginetest.Print(got)), x.log, enginetest.Format(x.script))
	}
}
