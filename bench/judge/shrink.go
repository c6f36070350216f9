// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Shrink returns a small script for which fails still holds, made of s by leaving
// things out: pods, nodes, pools, types, then what each of them says. It assumes
// that fails(s) holds, changes nothing in s, and asks fails at most budget times.
func Shrink(s *enginetest.Script, budget int, fails func(*enginetest.Script) bool) *enginetest.Script {
	k := &shrinker{best: s, left: budget, fails: fails}
	for changed := true; changed && k.left > 0; {
		changed = false
		for _, step := range []func() bool{k.lists, k.maps, k.pods, k.nodes, k.pools, k.types} {
			if step() {
				changed = true
			}
		}
	}
	return k.best
}

type shrinker struct {
	best  *enginetest.Script
	left  int // how often fails may still be asked
	fails func(*enginetest.Script) bool
}

// try keeps the edited script when it still fails.
func (k *shrinker) try(edit func(*enginetest.Script)) bool {
	if k.left <= 0 {
		return false
	}
	k.left--
	s := *k.best
	edit(&s)
	if !k.fails(&s) {
		return false
	}
	k.best = &s
	return true
}

func (k *shrinker) lists() bool {
	pods := cut(k, func(s *enginetest.Script) *[]cluster.Pod { return &s.Pods })
	nodes := cut(k, func(s *enginetest.Script) *[]cluster.Node { return &s.Nodes })
	pools := cut(k, func(s *enginetest.Script) *[]cluster.NodePool { return &s.Pools })
	types := cut(k, func(s *enginetest.Script) *[]offering.InstanceType { return &s.Types })
	daemons := cut(k, func(s *enginetest.Script) *[]cluster.DaemonSet { return &s.Daemons })
	return pods || nodes || pools || types || daemons
}

// cut leaves out halves of a list, then quarters, at last single items.
func cut[T any](k *shrinker, list func(*enginetest.Script) *[]T) bool {
	changed := false
	for size := max(1, len(*list(k.best))/2); ; size /= 2 {
		for at := 0; at < len(*list(k.best)); {
			if k.try(func(s *enginetest.Script) { without(list(s), at, size) }) {
				changed = true
				continue
			}
			at += size
		}
		if size <= 1 {
			return changed
		}
	}
}

// without replaces the list by one that lacks n items; the old one stays as it is.
func without[T any](list *[]T, at, n int) {
	l := *list
	*list = slices.Concat(l[:at], l[min(len(l), at+n):])
}

func (k *shrinker) maps() bool {
	changed := false
	for name := range k.best.Namespaces {
		changed = k.try(func(s *enginetest.Script) { s.Namespaces = lacking(s.Namespaces, name) }) || changed
	}
	for name := range k.best.Quotas {
		changed = k.try(func(s *enginetest.Script) { s.Quotas = lacking(s.Quotas, name) }) || changed
	}
	if k.best.Settings != (cluster.Settings{}) {
		changed = k.try(func(s *enginetest.Script) { s.Settings = cluster.Settings{} }) || changed
	}
	return changed
}

func lacking[V any](m map[string]V, key string) map[string]V {
	out := maps.Clone(m)
	delete(out, key)
	return out
}

// simpler is a way to say less about a thing. It reports false when the thing has
// nothing of the kind to say.
type simpler[T any] func(*T) bool

// simplify tries every way on every item.
func simplify[T any](k *shrinker, list func(*enginetest.Script) *[]T, ways []simpler[T]) bool {
	changed := false
	for i := 0; i < len(*list(k.best)); i++ {
		for _, way := range ways {
			item := (*list(k.best))[i]
			if !way(&item) {
				continue
			}
			changed = k.try(func(s *enginetest.Script) {
				l := slices.Clone(*list(s))
				l[i] = item
				*list(s) = l
			}) || changed
		}
	}
	return changed
}

// drop, dropAll, dropLast and dropKeys make ways of saying less: no value, no list,
// a shorter list, a map without its first or last key.
func drop[T any, V comparable](field func(*T) *V) simpler[T] {
	return func(t *T) bool {
		var zero V
		had := *field(t) != zero
		*field(t) = zero
		return had
	}
}

func dropAll[T, V any](field func(*T) *[]V) simpler[T] {
	return func(t *T) bool {
		had := len(*field(t)) > 0
		*field(t) = nil
		return had
	}
}

func dropLast[T, V any](field func(*T) *[]V) simpler[T] {
	return func(t *T) bool {
		l := *field(t)
		if len(l) > 1 {
			*field(t) = l[:len(l)-1]
		}
		return len(l) > 1
	}
}

func dropKeys[T, V any](field func(*T) *map[string]V, but ...string) []simpler[T] {
	return []simpler[T]{func(t *T) bool { // the first that can go, in the order of their names
		for _, key := range slices.Sorted(maps.Keys(*field(t))) {
			if !slices.Contains(but, key) {
				*field(t) = lacking(*field(t), key)
				return true
			}
		}
		return false
	}, func(t *T) bool { // the last
		keys := slices.Sorted(maps.Keys(*field(t)))
		for _, key := range slices.Backward(keys) {
			if !slices.Contains(but, key) {
				*field(t) = lacking(*field(t), key)
				return true
			}
		}
		return false
	}}
}

func (k *shrinker) pods() bool {
	ways := []simpler[cluster.Pod]{
		dropAll(func(p *cluster.Pod) *[]constraint.Rule { return (*[]constraint.Rule)(&p.Required) }),
		dropAll(func(p *cluster.Pod) *[]cluster.Term { return &p.AnyOf }),
		dropAll(func(p *cluster.Pod) *[]cluster.Toleration { return &p.Tolerations }),
		dropAll(func(p *cluster.Pod) *[]cluster.PreferredSchedulingTerm { return &p.Preferred }),
		dropAll(func(p *cluster.Pod) *[]cluster.TopologySpreadConstraint { return &p.Spreads }),
		dropAll(func(p *cluster.Pod) *[]cluster.PodAffinityTerm { return &p.Affinity }),
		dropAll(func(p *cluster.Pod) *[]cluster.PodAffinityTerm { return &p.AntiAffinity }),
		dropAll(func(p *cluster.Pod) *[]cluster.Port { return &p.Ports }),
		dropAll(func(p *cluster.Pod) *[]cluster.Volume { return &p.Volumes }),
		dropLast(func(p *cluster.Pod) *[]constraint.Rule { return (*[]constraint.Rule)(&p.Required) }),
		dropLast(func(p *cluster.Pod) *[]cluster.Term { return &p.AnyOf }),
		dropLast(func(p *cluster.Pod) *[]cluster.Toleration { return &p.Tolerations }),
		dropLast(func(p *cluster.Pod) *[]cluster.TopologySpreadConstraint { return &p.Spreads }),
		drop(func(p *cluster.Pod) *bool { return &p.Terminating }),
		drop(func(p *cluster.Pod) *bool { return &p.Virtual }),
		drop(func(p *cluster.Pod) *int32 { return &p.Priority }),
	}
	ways = append(ways, dropKeys(func(p *cluster.Pod) *map[string]string { return &p.Labels })...)
	ways = append(ways, dropKeys(func(p *cluster.Pod) *map[string]int64 { return (*map[string]int64)(&p.Requests) }, quantity.NamePods)...)
	return simplify(k, func(s *enginetest.Script) *[]cluster.Pod { return &s.Pods }, ways)
}

func (k *shrinker) nodes() bool {
	ways := []simpler[cluster.Node]{
		dropAll(func(n *cluster.Node) *[]cluster.Taint { return &n.Taints }),
		drop(func(n *cluster.Node) *bool { return &n.MarkedForDeletion }),
		drop(func(n *cluster.Node) *bool { return &n.TakesNoPods }),
	}
	ways = append(ways, dropKeys(func(n *cluster.Node) *map[string]string { return &n.Labels }, cluster.LabelHostname, cluster.LabelNodePool)...)
	return simplify(k, func(s *enginetest.Script) *[]cluster.Node { return &s.Nodes }, ways)
}

func (k *shrinker) pools() bool {
	ways := []simpler[cluster.NodePool]{
		dropAll(func(p *cluster.NodePool) *[]constraint.Rule { return (*[]constraint.Rule)(&p.Requirements) }),
		dropLast(func(p *cluster.NodePool) *[]constraint.Rule { return (*[]constraint.Rule)(&p.Requirements) }),
		dropAll(func(p *cluster.NodePool) *[]cluster.Taint { return &p.Taints }),
		drop(func(p *cluster.NodePool) *int32 { return &p.Weight }),
		drop(func(p *cluster.NodePool) *bool { return &p.Static }),
	}
	ways = append(ways, dropKeys(func(p *cluster.NodePool) *map[string]string { return &p.Labels })...)
	ways = append(ways, dropKeys(func(p *cluster.NodePool) *map[string]int64 { return (*map[string]int64)(&p.Limits) })...)
	return simplify(k, func(s *enginetest.Script) *[]cluster.NodePool { return &s.Pools }, ways)
}

func (k *shrinker) types() bool {
	offers := func(t *offering.InstanceType) *[]offering.Offering { return &t.Offerings }
	ways := []simpler[offering.InstanceType]{
		dropLast(offers),
		func(t *offering.InstanceType) bool {
			if len(t.Offerings) < 2 {
				return false
			}
			t.Offerings = t.Offerings[1:]
			return true
		},
	}
	ways = append(ways, dropKeys(func(t *offering.InstanceType) *map[string][]string { return &t.Labels })...)
	ways = append(ways, dropKeys(func(t *offering.InstanceType) *map[string]int64 { return (*map[string]int64)(&t.Overhead) })...)
	ways = append(ways, dropKeys(func(t *offering.InstanceType) *map[string]int64 { return (*map[string]int64)(&t.Capacity) }, quantity.NameCPU, quantity.NameMemory, quantity.NamePods)...)
	return simplify(k, func(s *enginetest.Script) *[]offering.InstanceType { return &s.Types }, ways)
}
