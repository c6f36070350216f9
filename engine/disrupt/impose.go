package disrupt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/world"
)

// impose supposes that the move came true: its nodes are gone, its machines bought, its
// pods where it takes them. A move that began to drain is in the World already. Where
// pods came since it was decided, its nodes keep them and merely take no more.
func (s *search) impose(m *Move) {
	hosts := s.hostsOf(m)
	if len(hosts) == 0 {
		return
	}
	before := s.trial.Mark()
	s.trial.Vacate(hosts...)
	for _, home := range m.Homes {
		if h := s.w.Host(home.Node); h != nil && !h.Leaving {
			s.trial.Settle(home.Pods, h)
		}
	}
	for i := range m.Launches {
		l := &m.Launches[i]
		h := s.trial.Add(machine(l, s.w, fmt.Sprintf("%s/%d", m.Nodes[0], i)))
		s.trial.Settle(l.Pods, h)
	}
	if len(s.trial.World().Classes) == 0 {
		return
	}
	s.trial.Back(before)
	for _, h := range hosts {
		s.trial.Shut(h)
	}
}

// hostsOf are the nodes of the move that are still there; none once it drains.
func (s *search) hostsOf(m *Move) []*world.Host {
	var out []*world.Host
	for _, key := range m.Nodes {
		switch h := s.w.Host(key); {
		case h == nil:
		case h.Leaving:
			return nil
		default:
			out = append(out, h)
		}
	}
	return out
}

// machine is what a launch will be as far as that is certain: it counts for the largest
// and has the room of the smallest of its choices, and draws on budgets as the first.
func machine(l *pack.Launch, w *world.World, key string) world.Node {
	n := world.Node{Key: key, Pool: l.Pool, Labels: maps.Clone(l.Labels), Taints: l.Taints, Claim: true, Price: l.Choices[0].Price}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[world.LabelPool] = l.Pool
	m := market(w, l.Pool)
	if m == nil {
		return n
	}
	seen := map[string]bool{}
	for at, c := range l.Choices {
		t := m.Catalog.Type(c.Type)
		if t == nil || seen[c.Type] {
			continue
		}
		seen[c.Type] = true
		room := t.Capacity.Sub(t.Overhead)
		if n.Capacity == nil {
			n.Capacity, n.Allocatable = maps.Clone(t.Capacity), room
		}
		if at == 0 {
			n.Draws = t.Draws(c)
		}
		for name, amount := range t.Capacity {
			n.Capacity[name] = max(n.Capacity[name], amount)
		}
		for name, amount := range n.Allocatable {
			n.Allocatable[name] = min(amount, room[name])
		}
	}
	return n
}

func market(w *world.World, pool string) *world.Market {
	i := slices.IndexFunc(w.Markets, func(m *world.Market) bool { return m.Pool.Name == pool })
	if i < 0 {
		return nil
	}
	return w.Markets[i]
}
