package disrupt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/world"
)

// impose supposes that the move came true: its nodes are gone, its machines bought, its
// pods where it takes them. A move that began to drain is in the World already. Where
// pods came since it was decided, its nodes keep them and merely take no more. It returns
// who came where.
func (s *search) impose(m *Move) arrivals {
	hosts := s.hostsOf(m)
	if len(hosts) == 0 {
		return nil
	}
	came := arrivals{}
	before := s.trial.Mark()
	s.trial.Vacate(hosts...)
	for _, home := range m.Homes {
		if h := s.w.Host(home.Node); h != nil && !h.Leaving {
			came.note(s.trial.Settle(home.Pods, h), h)
		}
	}
	kinds := map[*offer.Choice]world.Node{} // launches that are alike share their choices
	for i := range m.Launches {
		l := &m.Launches[i]
		kind, known := kinds[&l.Choices[0]]
		if !known {
			kind = kindOf(l, s.w)
			kinds[&l.Choices[0]] = kind
		}
		h := s.trial.Add(machine(l, kind, fmt.Sprintf("%s/%d", m.Nodes[0], i)))
		came.note(s.trial.Settle(l.Pods, h), h)
	}
	if len(s.trial.World().Classes) == 0 {
		return came
	}
	s.trial.Back(before)
	for _, h := range hosts {
		s.trial.Shut(h)
	}
	return nil
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

// kindOf is what a launch will be as far as its choices are certain: it counts for the largest
// and has the room of the smallest of them, draws on budgets as the first, and has the labels
// that all of them have.
func kindOf(l *pack.Launch, w *world.World) world.Node {
	n := world.Node{Pool: l.Pool, Claim: true, Price: l.Choices[0].Price}
	if m := market(w, l.Pool); m != nil {
		size(&n, l.Choices, m.Catalog)
		n.Labels = shared(l.Choices, m.Catalog)
	}
	return n
}

// machine is one of the kind, with what else is settled about the launch.
func machine(l *pack.Launch, kind world.Node, key string) world.Node {
	n := kind
	n.Key, n.Taints = key, l.Taints
	n.Labels = make(map[string]string, len(kind.Labels)+len(l.Labels)+1)
	maps.Copy(n.Labels, kind.Labels)
	maps.Copy(n.Labels, l.Labels)
	n.Labels[world.LabelPool] = l.Pool
	return n
}

// size fills in what the machine has room for, counts for and draws.
func size(n *world.Node, choices []offer.Choice, on *offer.Catalog) {
	seen := map[string]bool{}
	for at, c := range choices {
		t := on.Type(c.Type)
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
}

// shared are the labels that a machine has whichever choice is bought.
func shared(choices []offer.Choice, on *offer.Catalog) map[string]string {
	var left []label
	for at, c := range choices {
		t := on.Type(c.Type)
		if t == nil {
			continue
		}
		o := t.Offer(c)
		if at == 0 {
			left = collect(nil, t.Labels)
			if o != nil {
				left = collect(left, o.Labels)
			}
		}
		left = slices.DeleteFunc(left, func(l label) bool { return !settled(t, o, l.key, l.value) })
	}
	out := make(map[string]string, len(left))
	for _, l := range left {
		out[l.key] = l.value
	}
	return out
}

type label struct{ key, value string }

// collect adds the labels of which there is one value.
func collect(out []label, labels map[string][]string) []label {
	for key, values := range labels {
		if len(values) == 1 {
			out = append(out, label{key, values[0]})
		}
	}
	return out
}

// settled reports whether machines of that offer have that value of the label and cannot have another.
func settled(t *offer.Type, o *offer.Offer, key, value string) bool {
	values := t.Labels[key]
	if o != nil && len(o.Labels[key]) > 0 {
		values = o.Labels[key]
	}
	return len(values) == 1 && values[0] == value
}

func market(w *world.World, pool string) *world.Market {
	i := slices.IndexFunc(w.Markets, func(m *world.Market) bool { return m.Pool.Name == pool })
	if i < 0 {
		return nil
	}
	return w.Markets[i]
}
