package disruption

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/kube"
)

const (
	// proves is how long after the last of its nodes is gone a consolidation may still turn
	// out not to have come true.
	proves = 10 * time.Minute
	// succeeds is how long after the last of its nodes is gone what takes the place of its
	// pods is made at the latest: it is made when they are evicted. Pods that come later
	// belong to a wave, a rollout or somebody else's end.
	succeeds = 10 * time.Second
	// firstLull is how long a pool is not consolidated after one that did not; each further
	// one doubles it, up to longestLull.
	firstLull, longestLull = 30 * time.Second, 6 * time.Hour
	// mostUnproved bounds how many consolidations are kept in mind: so many are enough to
	// find out whether they come true.
	mostUnproved = 1000
)

// unproved is a consolidation whose pods have yet to run where they were to go: the
// scheduler may put them elsewhere.
type unproved struct {
	id     string
	nodes  []string        // claims that went
	pools  map[string]bool // theirs, without those that rest since
	owners map[types.UID]int
	since  time.Time // the nodes were asked to go
	until  time.Time
}

// lull is for how long a pool is not consolidated.
type lull struct {
	length time.Duration
	until  time.Time
}

// relapses are consolidations that the scheduler may undo, and the pools where it did.
// The zero relapses are none.
type relapses struct {
	open   map[string]*unproved // by move
	judged map[string]bool      // claims that were looked at
	lulls  map[string]lull      // by pool
}

// displaces notes whom a consolidation moves, while they are there. Moves that must be
// made whatever comes of them prove nothing.
func (c *Controller) displaces(m *move, s *sight) *unproved {
	if !m.patient() || c.Settings.Upstream {
		return nil
	}
	owners := map[types.UID]bool{}
	u := &unproved{id: m.id, nodes: m.Nodes, pools: map[string]bool{}, since: s.now}
	for _, key := range m.Nodes {
		machine := s.machines[key]
		u.pools[machine.World.Pool] = true
		for _, p := range machine.Pods {
			if owner := kube.OwnerOf(p); owner != "" && needsHome(p) {
				owners[owner] = true
			}
		}
	}
	if len(owners) == 0 {
		return nil
	}
	u.owners = c.Mirror.Strength(owners)
	return u
}

// watch keeps an eye on what becomes of a consolidation.
func (r *relapses) watch(u *unproved) {
	if u == nil || len(r.open) >= mostUnproved {
		return
	}
	r.open = with(r.open, u.id, u)
}

// rest is until when the pool is not consolidated.
func (r *relapses) rest(pool string) time.Time { return r.lulls[pool].until }

// relapsed finds out which consolidations did not come true: machines had to be bought
// for pods that they displaced.
func (c *Controller) relapsed(s *sight) {
	r := &c.relapses
	r.forget(s)
	for _, x := range c.confirm(c.suspects(s)) {
		for _, pool := range slices.Sorted(maps.Keys(x.of.pools)) {
			if r.again(pool, s.now) {
				c.tellUndone(x, pool)
			}
		}
	}
}

// forget ends what has proved itself, and forgives pools where nothing happened for long.
func (r *relapses) forget(s *sight) {
	unproven := map[string]bool{}
	for id, u := range r.open {
		if u.until.IsZero() || s.any(u.nodes) { // its pods are still on their way
			u.until = s.now.Add(proves)
		}
		if s.now.After(u.until) || len(u.pools) == 0 {
			delete(r.open, id)
		}
		for pool := range u.pools {
			unproven[pool] = true
		}
	}
	maps.DeleteFunc(r.lulls, func(pool string, l lull) bool {
		return !unproven[pool] && s.now.Sub(l.until) > max(2*l.length, forgive)
	})
}

func (s *sight) any(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { _, ok := s.machines[key]; return ok })
}

// suspect is a claim bought for a pod like those that a consolidation displaced.
type suspect struct {
	of    *unproved
	claim string
	pod   *corev1.Pod
}

// suspects looks once at every claim that was bought since the oldest consolidation
// that is not proved, in the order of names.
func (c *Controller) suspects(s *sight) []suspect {
	r := &c.relapses
	if len(r.open) == 0 {
		r.judged = nil
		return nil
	}
	var found []suspect
	judged := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(s.machines)) {
		machine := s.machines[key]
		if machine.Claim.Annotations[kube.ReplacesAnnotation] != "" || !r.after(machine.Claim.CreationTimestamp.Time) {
			continue
		}
		judged[key] = r.judged[key] || machine.Promised > 0
		if !judged[key] || r.judged[key] {
			continue // no word yet about whom it is for, or looked at before
		}
		found = append(found, c.suspectsOf(machine, s)...)
	}
	r.judged = judged
	return found
}

// after reports whether a claim of that time may have been bought for displaced pods.
// Claims tell their time to the second.
func (r *relapses) after(created time.Time) bool {
	for _, u := range r.open {
		if !created.Before(u.since.Truncate(time.Second)) {
			return true
		}
	}
	return false
}

func (c *Controller) suspectsOf(machine kube.Machine, s *sight) []suspect {
	var found []suspect
	for _, p := range c.Mirror.PromisedTo(machine.Claim.Name) {
		for _, u := range c.relapses.open {
			if machine.Claim.CreationTimestamp.Time.Before(u.since.Truncate(time.Second)) || !u.displaced(p, s) {
				continue
			}
			found = append(found, suspect{of: u, claim: machine.Claim.Name, pod: p})
		}
	}
	return found
}

// displaced reports whether the pod may be one that the consolidation moved: not one
// that another node's end moves.
func (u *unproved) displaced(p *corev1.Pod, s *sight) bool {
	if u.owners[kube.OwnerOf(p)] == 0 {
		return false
	}
	if made := p.CreationTimestamp.Time; !u.until.IsZero() && made.After(u.until.Add(succeeds-proves)) {
		return false
	}
	return p.Spec.NodeName == "" || slices.ContainsFunc(u.nodes, func(key string) bool {
		return s.machines[key].World.Name == p.Spec.NodeName
	})
}

// confirm leaves out pods of owners that grew meanwhile: what is new was not displaced.
func (c *Controller) confirm(all []suspect) []suspect {
	if len(all) == 0 {
		return nil
	}
	owners := map[types.UID]bool{}
	for _, x := range all {
		owners[kube.OwnerOf(x.pod)] = true
	}
	strength := c.Mirror.Strength(owners)
	return slices.DeleteFunc(all, func(x suspect) bool {
		owner := kube.OwnerOf(x.pod)
		return strength[owner] > x.of.owners[owner]
	})
}

// again has a pool rest once more, and reports whether it did not already. What was
// consolidated before the rest says nothing new about it.
func (r *relapses) again(pool string, now time.Time) bool {
	for _, u := range r.open {
		delete(u.pools, pool)
	}
	l := r.lulls[pool]
	if now.Before(l.until) {
		return false
	}
	l.length = min(max(2*l.length, firstLull), longestLull)
	l.until = now.Add(l.length)
	r.lulls = with(r.lulls, pool, l)
	return true
}

// read is a lull that an earlier process wrote down. None is longer than the longest.
func (l lull) read(from kube.Lull, now time.Time) lull {
	l.length = min(time.Duration(min(from.Seconds, int(longestLull/time.Second)))*time.Second, longestLull)
	l.until = from.Until
	if latest := now.Add(longestLull); l.until.After(latest) {
		l.until = latest
	}
	return l
}
