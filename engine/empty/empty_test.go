package empty

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/reason"
)

func TestEmpty(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	quiet := Node{Key: "a", Pool: "web", Initialized: true, QuietSince: now.Add(-time.Minute)}
	pool := Pool{Name: "web", ConsolidateAfter: 30 * time.Second, Allowed: 10}
	with := func(change func(*Node)) Node { n := quiet; change(&n); return n }

	for _, tc := range []struct {
		name string
		node Node
		pool Pool
		want reason.Reason // empty: taken
	}{
		{"empty and quiet goes", quiet, pool, ""},
		{"exactly quiet enough goes", with(func(n *Node) { n.QuietSince = now.Add(-30 * time.Second) }), pool, ""},
		{"too soon", with(func(n *Node) { n.QuietSince = now.Add(-29 * time.Second) }), pool, TooSoon},
		{"pods", with(func(n *Node) { n.Pods = 1 }), pool, NotEmpty},
		{"protected", with(func(n *Node) { n.Protected = "the node's annotation" }), pool, DoNotDisrupt},
		{"promised", with(func(n *Node) { n.Promised = true }), pool, Nominated},
		{"not initialized", with(func(n *Node) { n.Initialized = false }), pool, NotInitialized},
		{"leaving", with(func(n *Node) { n.Leaving = true }), pool, AlreadyLeaving},
		{"unknown pool", with(func(n *Node) { n.Pool = "gone" }), pool, NoPool},
		{"never", quiet, Pool{Name: "web", Never: true, Allowed: 1}, Never},
		{"no budget", quiet, Pool{Name: "web"}, BudgetExhausted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := Empty([]Node{tc.node}, []Pool{tc.pool}, now)
			var got reason.Reason
			if len(v.Left) > 0 {
				got = v.Left[0].Because
			}
			if got != tc.want || (len(v.Take) == 1) != (tc.want == "") {
				t.Errorf("Empty = %+v, want reason %q", v, tc.want)
			}
		})
	}
}

// A budget is spent on the dearest nodes, and only on nodes that could go.
func TestEmptySpendsBudgetOnDearest(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	node := func(key string, price int64, pods int) Node {
		return Node{Key: key, Pool: "web", Initialized: true, Price: price, Pods: pods}
	}
	nodes := []Node{node("cheap", 1, 0), node("dear", 9, 0), node("busy", 99, 3), node("equal-b", 5, 0), node("equal-a", 5, 0)}
	for range 3 { // any order of the input gives the same
		v := Empty(nodes, []Pool{{Name: "web", Allowed: 2}}, now)
		if diff := cmp.Diff([]string{"dear", "equal-a"}, v.Take); diff != "" {
			t.Error(diff)
		}
		nodes = append(nodes[1:], nodes[0])
	}
}
