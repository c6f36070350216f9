// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
)

// podsAndSelectors is a Builder with the pods and namespaces that it was given, for a matcher that
// knows no classes.
type podsAndSelectors struct {
	*cluster.Builder
	pods       map[string]cluster.Pod
	namespaces map[string]map[string]string
}

func newPodsAndSelectors() *podsAndSelectors {
	return &podsAndSelectors{cluster.NewBuilder(), map[string]cluster.Pod{}, map[string]map[string]string{}}
}

func (w *podsAndSelectors) set(p cluster.Pod) {
	p.Created = time.Unix(0, 0)
	w.pods[p.UID] = p
	w.SetPod(p)
}

func (w *podsAndSelectors) remove(uid string) {
	delete(w.pods, uid)
	w.RemovePod(uid)
}

func (w *podsAndSelectors) setNamespace(name string, labels map[string]string) {
	w.namespaces[name] = labels
	w.SetNamespace(name, labels)
}

func (w *podsAndSelectors) removeNamespace(name string) {
	delete(w.namespaces, name)
	w.RemoveNamespace(name)
}

// check compares what every selector of a pending pod selects with what the plain matcher finds.
func (w *podsAndSelectors) check(t *testing.T, of string) {
	t.Helper()
	snapshot := w.Snapshot()
	ids := map[int]*cluster.PodSelector{}
	for _, c := range snapshot.Classes {
		for _, ref := range c.PodsToPlace {
			p := w.pods[ref.UID]
			for i := range p.Spreads {
				w.checkSelector(t, of, snapshot, c.Spreads[i].Selector, p.Spreads[i].Selector)
				ids[c.Spreads[i].Selector.ID()] = c.Spreads[i].Selector
			}
			for i := range c.Affinity {
				w.checkSelector(t, of, snapshot, c.Affinity[i].Selector, selectorsOf(p.Affinity)...)
				ids[c.Affinity[i].Selector.ID()] = c.Affinity[i].Selector
			}
		}
	}
	for _, c := range snapshot.Classes {
		for id := range c.Selectors().All() {
			if ids[id] == nil {
				t.Fatalf("%s: selector %d, which no pod has, selects %s", of, id, c)
			}
		}
	}
}

func selectorsOf(terms []cluster.PodAffinityTerm) []cluster.Selector {
	var out []cluster.Selector
	for _, term := range terms {
		out = append(out, term.Selector)
	}
	return out
}

func (w *podsAndSelectors) checkSelector(t *testing.T, of string, snapshot *cluster.Snapshot, s *cluster.PodSelector, all ...cluster.Selector) {
	t.Helper()
	want := 0
	for _, c := range snapshot.Classes {
		matched := w.selected(c.PodsToPlace[0].UID, all)
		for _, ref := range c.PodsToPlace {
			if w.selected(ref.UID, all) != matched {
				t.Fatalf("%s: %v selects only some pods of %s", of, all, c)
			}
		}
		if s.Selects(c) != matched {
			t.Fatalf("%s: %v selects %s: %v, want %v", of, all, c, s.Selects(c), matched)
		}
		if matched {
			want++
		}
	}
	classes := s.Classes()
	for _, c := range classes {
		if !s.Selects(c) {
			t.Fatalf("%s: %v lists %s, which it does not select", of, all, c)
		}
	}
	if pending := len(slices.DeleteFunc(slices.Clone(classes), func(c *cluster.PodClass) bool { return !slices.Contains(snapshot.Classes, c) })); pending != want {
		t.Fatalf("%s: %v lists %d pending classes, want %d", of, all, pending, want)
	}
	bound := 0
	for uid, p := range w.pods {
		if w.selected(uid, all) && p.Node != "" {
			bound++
		}
	}
	if s.AnyPod() != (bound > 0 || want > 0) {
		t.Fatalf("%s: %v selects any pod: %v", of, all, s.AnyPod())
	}
	s.EachNode(false, func(_ *cluster.NodeInfo, pods, _ int) { bound -= pods })
	if bound != 0 {
		t.Fatalf("%s: %v misses %d pods on nodes", of, all, bound)
	}
}

// selected matches the selectors with a pod as the documentation of Kubernetes says.
func (w *podsAndSelectors) selected(uid string, all []cluster.Selector) bool {
	p := w.pods[uid]
	for _, s := range all {
		in := slices.Contains(s.Namespaces, p.Namespace) || s.NamespaceLabels != nil && holds(s.NamespaceLabels, w.namespaces[p.Namespace])
		if s.Nothing || !in || !holds(s.Labels, p.Labels) {
			return false
		}
	}
	return true
}

func holds(rules cluster.Term, labels map[string]string) bool {
	return !slices.ContainsFunc(rules, func(r constraint.Rule) bool {
		v, ok := labels[r.Key]
		n, err := strconv.ParseInt(v, 10, 64)
		switch r.Operator {
		case constraint.In:
			return !ok || !slices.Contains(r.Values, v)
		case constraint.NotIn:
			return ok && slices.Contains(r.Values, v)
		case constraint.Exists:
			return !ok
		case constraint.Gt:
			bound, _ := strconv.ParseInt(r.Values[0], 10, 64)
			return !ok || err != nil || n <= bound
		}
		return ok // DoesNotExist
	})
}

// drawn draws pods, selectors and namespaces from few values, so that most of them meet.
type drawn struct {
	*rand.Rand
	keys, values, namespaces int
}

func (d drawn) labels() map[string]string {
	out := map[string]string{}
	for k := range d.keys {
		if d.IntN(3) > 0 {
			out[fmt.Sprint("key-", k)] = d.value()
		}
	}
	return out
}

func (d drawn) value() string     { return fmt.Sprint(d.IntN(d.values)) }
func (d drawn) namespace() string { return fmt.Sprint("ns-", d.IntN(d.namespaces)) }

func (d drawn) term() cluster.Term {
	var out cluster.Term
	for range d.IntN(4) {
		r := constraint.Rule{Key: fmt.Sprint("key-", d.IntN(d.keys))}
		switch d.IntN(9) {
		case 0, 1, 2:
			r.Operator = constraint.In
		case 3, 4, 5:
			r.Operator = constraint.NotIn
		case 6:
			r.Operator = constraint.Exists
		case 7:
			r.Operator = constraint.DoesNotExist
		default:
			r.Operator = constraint.Gt
			r.Values = []string{d.value()}
		}
		if r.Operator == constraint.In || r.Operator == constraint.NotIn {
			for range 1 + d.IntN(3) {
				r.Values = append(r.Values, d.value())
			}
		}
		out = append(out, r)
	}
	return out
}

func (d drawn) selector() cluster.Selector {
	s := cluster.Selector{Labels: d.term(), Nothing: d.IntN(20) == 0}
	for range d.IntN(3) {
		s.Namespaces = append(s.Namespaces, d.namespace())
	}
	if len(s.Namespaces) == 0 || d.IntN(3) == 0 {
		s.NamespaceLabels = append(cluster.Term{}, d.term()...)
	}
	return s
}

func (d drawn) pod(uid int) cluster.Pod {
	p := cluster.Pod{PodRef: cluster.PodRef{UID: fmt.Sprint(uid), Namespace: d.namespace(), Name: fmt.Sprint(uid)}, Labels: d.labels()}
	if d.IntN(4) == 0 {
		p.Node = fmt.Sprint("node-", d.IntN(3))
		return p
	}
	for range d.IntN(3) {
		p.Spreads = append(p.Spreads, cluster.TopologySpreadConstraint{Key: "zone", MaxSkew: 1, Selector: d.selector()})
	}
	for range d.IntN(3) {
		p.Affinity = append(p.Affinity, cluster.PodAffinityTerm{Key: "zone", Selector: d.selector()})
	}
	return p
}

// TestSelectorsSelectWhatAPlainMatcherFinds changes pods and namespaces at random, few or many
// between two snapshots.
func TestSelectorsSelectWhatAPlainMatcherFinds(t *testing.T) {
	for seed := range uint64(60) {
		d := drawn{rand.New(rand.NewPCG(seed, 0)), []int{1, 2, 3, 5, 20}[seed%5], 2 + int(seed%7)*int(seed%3)*4, 1 + int(seed%4)}
		w := newPodsAndSelectors()
		for i := range 3 {
			w.SetNode(cluster.Node{Key: fmt.Sprint("node-", i), Name: fmt.Sprint("node-", i)})
		}
		pods := []int{20, 150, 400}[seed%3]
		for round := range 12 {
			changes := 1 + d.IntN(5)
			if d.IntN(3) == 0 {
				changes = d.IntN(2 * pods)
			}
			for range changes {
				uid := d.IntN(pods)
				switch d.IntN(12) {
				case 0:
					w.setNamespace(d.namespace(), d.labels())
				case 1:
					w.removeNamespace(d.namespace())
				case 2, 3, 4:
					w.remove(fmt.Sprint(uid))
				default:
					w.set(d.pod(uid))
				}
			}
			if round == 8 {
				for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
					if d.IntN(20) > 0 {
						w.remove(uid)
					}
				}
			}
			w.check(t, fmt.Sprintf("seed %d, round %d", seed, round))
		}
	}
}
