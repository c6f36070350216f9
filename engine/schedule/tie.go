package schedule

import (
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// Tie is one thing that pods which are to come to a node need of pods elsewhere: that those they
// spread with are as many in other zones, or that those they want to be near are in theirs. It says
// how things stand in its Trial, whatever is supposed there. Ties that are equal say the same.
type Tie struct {
	census *cluster.PodCounts
	roll   *cluster.NodeCounts // nil unless the pods spread
	value  int                 // of the label, on their node
	skew   int
	zones  int // with fewer the emptiest counts as none
	own    bool
}

// Ties are those of pods of the class that a Trial settled on the host. What the host itself must
// have is left out, as it stays: hostnames, and labels that it does not have yet.
func Ties(w *cluster.Snapshot, c *cluster.PodClass, h *cluster.NodeInfo) []Tie {
	var out []Tie
	seat := func(key *constraint.Key) (int, bool) {
		v, ok := h.Value(key)
		return v, ok && key.Name != cluster.LabelHostname
	}
	keys, names := hardSpreads(c)
	for i := range c.Spreads {
		e := &c.Spreads[i]
		v, ok := seat(e.Key)
		if e.Soft || !ok {
			continue
		}
		k := spreadKey(c, e, names)
		m := memoOf(w)
		t := &domainCount{key: k.key, of: k.of, filter: k.filter, keys: keys}
		out = append(out, Tie{census: m.census(k, t, w), roll: m.roll(t, w), value: v, skew: e.MaxSkew, zones: e.MinDomains})
	}
	for i := range c.Affinity {
		n := &c.Affinity[i]
		v, ok := seat(n.Key)
		if n.Weight > 0 || !ok {
			continue
		}
		k := domainCountKey{key: n.Key, of: countKey{crowd: n.Crowd, real: !c.Virtual}}
		out = append(out, Tie{census: memoOf(w).census(k, &domainCount{key: k.key, of: k.of}, w), value: v, own: n.Crowd.Selects(c)})
	}
	return out
}

// Strain is by how many pods the tie is torn: the node's zone has so many too many, or misses one.
// Zero or less means that it holds. So many pods that are to come have the same tie: who wants to be
// near its like cannot count on those, which wait for it as much.
func (t Tie) Strain(same int) int {
	have := t.census.Counts[t.value]
	switch {
	case t.roll != nil:
		return have - t.least() - t.skew
	case !t.own:
		return 1 - have
	case have == t.census.Total: // nobody is elsewhere, so one of them may be the first
		return 0
	}
	return 1 - (have - same)
}

// Changes grows with everything that may change the strain, in whichever direction.
func (t Tie) Changes() int {
	if t.roll == nil {
		return t.census.Changes
	}
	return t.census.Changes + t.roll.Changes
}

// least is the count of the emptiest zone, zero while there are too few.
func (t Tie) least() int {
	if len(t.roll.Counts) < t.zones {
		return 0
	}
	least := t.census.Counts[t.value]
	for v := range t.roll.Counts {
		least = min(least, t.census.Counts[v])
	}
	return least
}
