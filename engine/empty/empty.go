package empty

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/karve-dev/karve/engine/reason"
)

// Why a node is left alone. Values are part of karve's API: never renamed, never reused.
const (
	NotInitialized  reason.Reason = "NotInitialized"  // it is still on its way up
	AlreadyLeaving  reason.Reason = "AlreadyLeaving"  // it is on its way out
	NotEmpty        reason.Reason = "NotEmpty"        // pods on it would need another home
	DoNotDisrupt    reason.Reason = "DoNotDisrupt"    // the node or a pod asks to be left alone
	Nominated       reason.Reason = "Nominated"       // pods were promised room on it
	Never           reason.Reason = "Never"           // the pool's consolidateAfter is Never
	TooSoon         reason.Reason = "TooSoon"         // consolidateAfter has not passed since the last pod came or went
	BudgetExhausted reason.Reason = "BudgetExhausted" // the pool may not lose another node now
	NoPool          reason.Reason = "NoPool"          // nobody's rules apply to it
)

// Node is a node as far as its emptiness goes.
type Node struct {
	Key, Pool   string
	Initialized bool
	Leaving     bool
	// Pods counts those that would need another home.
	Pods int
	// Protected says in words who asks for the node to be left alone; empty when nobody does.
	Protected string
	// Promised is set while pods are expected on the node.
	Promised bool
	// QuietSince is when a pod last came or went, or the node became ready.
	QuietSince time.Time
	// Price is what the node costs, in any unit; dearer nodes go first when not all may.
	Price int64
}

// Pool is what a NodePool says about losing nodes.
type Pool struct {
	Name string
	// ConsolidateAfter is how long a node must be quiet; Never overrides it.
	ConsolidateAfter time.Duration
	Never            bool
	// Allowed is how many more nodes may be disrupted now, after those that are down
	// or leaving already.
	Allowed int
}

// Left is a node that stays, and why.
type Left struct {
	Key     string
	Because reason.Reason
	Detail  string
	// Until is when the reason lapses by itself; zero when it is not a matter of time.
	Until time.Time
}

// Verdict says which nodes go, dearest first, and why the others stay.
type Verdict struct {
	Take []string
	Left []Left
}

// Quiet reports since when the node counts as consolidatable, and whether now is
// past that. Whether it is empty is another question.
func Quiet(n Node, p Pool, now time.Time) (at time.Time, quiet bool) {
	at = n.QuietSince.Add(p.ConsolidateAfter)
	return at, n.Initialized && !p.Never && !now.Before(at)
}

// Empty decides which nodes can go because nothing would miss them. The order of
// the arguments does not matter.
func Empty(nodes []Node, pools []Pool, now time.Time) Verdict {
	byName := make(map[string]*Pool, len(pools))
	for _, p := range pools {
		byName[p.Name] = &p
	}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, dearestFirst)
	var v Verdict
	for _, n := range nodes {
		if left := stays(n, byName[n.Pool], now); left.Because != "" {
			v.Left = append(v.Left, left)
			continue
		}
		byName[n.Pool].Allowed--
		v.Take = append(v.Take, n.Key)
	}
	return v
}

func dearestFirst(a, b Node) int {
	return cmp.Or(cmp.Compare(b.Price, a.Price), cmp.Compare(a.Key, b.Key))
}

// stays is the first reason to leave the node alone; its zero Because means none.
// A pool's budget comes last: only nodes that could go use it up.
func stays(n Node, p *Pool, now time.Time) Left {
	left := func(because reason.Reason, detail string) Left {
		return Left{Key: n.Key, Because: because, Detail: detail}
	}
	switch {
	case p == nil:
		return left(NoPool, fmt.Sprintf("nodepool %q is not known", n.Pool))
	case n.Leaving:
		return left(AlreadyLeaving, "")
	case !n.Initialized:
		return left(NotInitialized, "")
	case n.Pods > 0:
		return left(NotEmpty, fmt.Sprintf("%d pods would need another home", n.Pods))
	case n.Protected != "":
		return left(DoNotDisrupt, n.Protected)
	case n.Promised:
		return left(Nominated, "")
	case p.Never:
		return left(Never, "consolidateAfter is Never")
	}
	if at, quiet := Quiet(n, *p, now); !quiet {
		l := left(TooSoon, fmt.Sprintf("quiet for %s of %s", now.Sub(n.QuietSince).Truncate(time.Second), p.ConsolidateAfter))
		l.Until = at
		return l
	}
	if p.Allowed <= 0 {
		return left(BudgetExhausted, fmt.Sprintf("nodepool %q may not lose another node now", p.Name))
	}
	return Left{}
}
