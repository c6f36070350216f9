// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// filterOrder is the order of the cuts of a funnel.
var filterOrder = []reason.Reason{
	reason.Requirements, reason.Volumes, reason.Taints, reason.Resources, reason.Ports, reason.Limits, reason.Quota, reason.Addresses, reason.Availability, reason.MinValues, reason.Topology,
}

// reasons checks the explanation of unplaced pods: it covers every pool once, charges every
// offering to exactly one filter, and leaves none.
func (c *checker) reasons(u schedule.Unplaced) {
	if err := wellFormed(u.Facts); err != nil {
		c.fail("%s: %w", names(u.Pods), err)
	}
	if len(u.Funnels) == 0 {
		return
	}
	var explained, want []string
	for _, f := range u.Funnels {
		explained = append(explained, f.Pool)
		if err := c.funnel(f); err != nil {
			c.fail("%s, pool %s: %w", names(u.Pods), f.Pool, err)
		}
	}
	for _, p := range c.Pools {
		want = append(want, p.Name)
	}
	slices.Sort(explained)
	slices.Sort(want)
	if !slices.Equal(explained, want) {
		c.fail("%s: explained for pools %v, there are %v", names(u.Pods), explained, want)
	}
}

func (c *checker) funnel(f reason.Funnel) error {
	if f.Blocked != "" {
		if len(f.Cuts) > 0 || f.Detail == "" {
			return fmt.Errorf("a pool that is not looked at has %d cuts and says %q", len(f.Cuts), f.Detail)
		}
		return wellFormed(f.Facts)
	}
	if want := len(distinctOffers(c.Script)); f.Offerings != want {
		return fmt.Errorf("starts with %d offerings of %d", f.Offerings, want)
	}
	last := 0
	for _, cut := range f.Cuts {
		at := slices.Index(filterOrder, cut.By)
		if at < last || cut.Removed <= 0 || cut.Detail == "" || len(cut.Facts) == 0 {
			return fmt.Errorf("a cut by %s, out of order or without a meaning: %+v", cut.By, cut)
		}
		last = at
		if err := wellFormed(cut.Facts); err != nil {
			return fmt.Errorf("the cut by %s: %w", cut.By, err)
		}
	}
	if f.Left() != 0 {
		return fmt.Errorf("%d offerings came through every filter", f.Left())
	}
	return nil
}

// runnersUp checks the explanation of a launch: other types, each once, priced against the
// first offering; only types that are merely dearer are among the launch's offerings.
func (c *checker) runnersUp(l schedule.Launch) error {
	first, seen := l.Offerings[0], map[string]bool{l.Offerings[0].Type: true}
	pods := l.Requests.Sub(l.Daemons)
	if len(l.RunnersUp) > 3 {
		return fmt.Errorf("%d runners-up", len(l.RunnersUp))
	}
	for _, r := range l.RunnersUp {
		size, o := c.offered(r.Ref)
		chosen := r.Pool == l.Pool && slices.Contains(l.Offerings, r.Ref)
		switch {
		case seen[r.Type]:
			return fmt.Errorf("type %s is named twice", r.Type)
		case r.More != r.Price-first.Price:
			return fmt.Errorf("%s is said to cost %s more", r.Type, r.More)
		case (r.Because == reason.HigherPrice) != chosen:
			return fmt.Errorf("%s lost because of %s; among the choices: %v", r.Type, r.Because, chosen)
		case !chosen && r.More > 0 || chosen && r.More < 0:
			return fmt.Errorf("%s lost because of %s at %s more", r.Type, r.Because, r.More)
		case (r.Because == reason.Availability) != (o != nil && o.Unavailable != ""):
			return fmt.Errorf("%s lost because of %s", r.Type, r.Because)
		case size == nil:
			return fmt.Errorf("%s is not offered", r.Type)
		case r.Because != reason.Resources && !largeEnough(size, pods):
			return fmt.Errorf("%s lost because of %s, yet it is too small", r.Type, r.Because)
		case r.Why == "" || r.Because != reason.HigherPrice && len(r.Facts) == 0:
			return fmt.Errorf("%s lost without a reason", r.Type)
		}
		if err := wellFormed(r.Facts); err != nil {
			return fmt.Errorf("%s: %w", r.Type, err)
		}
		seen[r.Type] = true
	}
	return nil
}

// largeEnough reports whether a node without DaemonSets fits the requests. Attachments that it
// does not list are unlimited.
func largeEnough(t *offering.InstanceType, requests quantity.Amounts) bool {
	for name, n := range requests {
		have, listed := t.Capacity[name]
		if n > have-t.Overhead[name] && (listed || !strings.HasPrefix(name, quantity.Attachable)) {
			return false
		}
	}
	return true
}

// distinctOffers are the offerings of types with distinct names: the first type of a name counts.
func distinctOffers(s *Script) []offering.Offering {
	var out []offering.Offering
	seen := map[string]bool{}
	for _, t := range s.Types {
		if !seen[t.Name] {
			seen[t.Name] = true
			out = append(out, t.Offerings...)
		}
	}
	return out
}

// wellFormed reports facts that are out of order or of a type that readers do not expect.
func wellFormed(fs reason.Facts) error {
	if !slices.IsSortedFunc(fs, func(a, b reason.Fact) int { return cmp.Compare(a.Name, b.Name) }) {
		return fmt.Errorf("facts out of order: %v", fs)
	}
	for i, f := range fs {
		if i > 0 && fs[i-1].Name == f.Name {
			return fmt.Errorf("fact %s is listed twice", f.Name)
		}
		switch f.Value.(type) {
		case string, int64, []string, map[string]int64:
		default:
			return fmt.Errorf("fact %s is a %T", f.Name, f.Value)
		}
	}
	return nil
}
