// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/bitset"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/reason"
)

// PodClass is a group of pods that every decision treats alike: one PodShape, one priority,
// the same spread constraints and pod (anti-)affinity, and the same answer to every selector
// of any pod. A Deployment of 5,000 replicas is one PodClass with 5,000 pods.
type PodClass struct {
	*PodShape
	Priority int32
	// Virtual is set when the pods stand for spare capacity; they are placed last.
	Virtual bool
	// Preferred are the terms of node affinity that should hold, heaviest first.
	Preferred []PreferredTerm
	// Spreads, Affinity and AntiAffinity are the topology spread constraints and pod
	// (anti-)affinity terms of the pods, including soft and preferred ones.
	Spreads                []TopologySpread
	Affinity, AntiAffinity []AffinityTerm
	// Refused says why the class cannot be planned for at all; empty when it can.
	Refused reason.Reason
	Detail  string
	Facts   reason.Facts // the parameters of Detail
	// Pods are the pods to be placed: first pending pods, then pods of leaving nodes, each
	// oldest first.
	Pods []PodRef

	namespace string
	labels    map[string]string   // those that some selector asks for
	selectors bitset.Set          // IDs of the selectors that pick the class
	ownTerms  []*AntiAffinityTerm // required anti-affinity terms of its pods
	named     []*PodSelector      // selectors that its constraints name
	mentions  []string            // pod labels that its selectors ask for

	key, body string
	pods      int // number of pods in the class, bound ones included
	on        map[*place]headcount
	waiting   []*pod
	changed   bool   // Pods does not reflect waiting yet
	unplaced  []*pod // the pods that Pods lists during a WhatIf
}

// headcount is how many pods are at a place, and how many of them are terminating.
type headcount struct{ pods, dying int32 }

// TopologySpread is a TopologySpreadConstraint, compiled.
type TopologySpread struct {
	Key                         *constraint.Key
	Pods                        *PodSelector
	MaxSkew, MinDomains         int
	Soft                        bool
	IgnoreAffinity, HonorTaints bool
}

// AffinityTerm is a PodAffinityTerm, compiled.
type AffinityTerm struct {
	Key    *constraint.Key
	Pods   *PodSelector
	Weight int32 // 0: required
}

// String names the class by its first pod, for people.
func (c *PodClass) String() string {
	if len(c.Pods) == 0 {
		return "no pods"
	}
	return fmt.Sprintf("%s/%s and %d more", c.Pods[0].Namespace, c.Pods[0].Name, len(c.Pods)-1)
}

// class returns the PodClass of a pod, and compiles it for the first pod of its kind.
func (b *Builder) class(p *Pod) *PodClass {
	if done := b.mentionAll(p); done != nil {
		defer done()
	}
	exact := p.Node == ""
	s := &b.scratch
	s.reset()
	s.shape(p)
	shapeLen := len(s.bytes)
	s.body(p)
	bodyLen := len(s.bytes)
	s.labels(p.Labels, b, exact)
	if c := b.classes[string(s.bytes)]; c != nil {
		return c
	}
	key := string(s.bytes)
	c := &PodClass{PodShape: b.shape(p, key[:shapeLen]), Priority: p.Priority, Virtual: p.Virtual, mentions: mentions(p),
		namespace: p.Namespace, labels: b.kept(p.Labels, exact), key: key, body: key[:bodyLen], on: map[*place]headcount{}}
	c.Preferred = b.wishes(p)
	c.Refused, c.Detail, c.Facts = c.PodShape.Refused, c.PodShape.Detail, c.PodShape.Facts
	if p.Refused != "" {
		c.Refused, c.Detail, c.Facts = p.Refused, p.RefusedDetail, p.RefusedFacts
	}
	if err := b.meet(c, p); err != nil && c.Refused == "" {
		c.Refused, c.Detail, c.Facts = reason.Invalid, err.Error(), factsOf(err)
	}
	b.admit(c)
	return c
}

func (b *Builder) shape(p *Pod, key string) *PodShape {
	s := b.shapes[key]
	if s == nil {
		s = b.newShape(p, key)
		b.shapes[key] = s
	}
	s.refs++
	return s
}

// tells reports whether a label distinguishes pods, because some selector asks for it. With
// exact, for pods that are to be placed, only labels count that a selector asks for now:
// otherwise the plan would depend on earlier states of the cluster. Classes of pods that are
// not to be placed may also differ in labels that selectors asked for before.
func (b *Builder) tells(label string, exact bool) bool {
	asking, known := b.mentioned[label]
	return known && (asking > 0 || !exact)
}

// kept returns the labels that distinguish pods (see tells).
func (b *Builder) kept(labels map[string]string, exact bool) map[string]string {
	out := map[string]string{}
	for k, v := range labels {
		if b.tells(k, exact) {
			out[k] = v
		}
	}
	return out
}

// mostPorts bounds the host ports of one pod, as mostAlternatives bounds its affinity.
const mostPorts = 1000

// meet compiles the topology spread constraints and the pod (anti-)affinity of a class, and
// checks its host ports.
func (b *Builder) meet(c *PodClass, p *Pod) error {
	for i := range p.Spreads {
		s := &p.Spreads[i]
		if s.Key == "" || s.MaxSkew < 1 {
			return faultf(map[string]any{"key": s.Key, "maxSkew": int(s.MaxSkew)}, "topology spread over %q with a maxSkew of %d means nothing", s.Key, s.MaxSkew)
		}
		g, err := b.selector(s.Select)
		if err != nil {
			return fmt.Errorf("topology spread over %s: %w", s.Key, err)
		}
		c.named = append(c.named, g)
		c.Spreads = append(c.Spreads, TopologySpread{Key: b.space.Key(s.Key), Pods: g, MaxSkew: int(s.MaxSkew), MinDomains: max(1, int(s.MinDomains)),
			Soft: s.Soft, IgnoreAffinity: s.IgnoreAffinity, HonorTaints: s.HonorTaints})
	}
	if len(p.Ports) > mostPorts {
		return faultf(map[string]any{"ports": len(p.Ports), "most": mostPorts}, "it asks for %d host ports, more than %d", len(p.Ports), mostPorts)
	}
	for _, port := range p.Ports {
		if port.Port < 1 || port.Port > math.MaxUint16 {
			return fmt.Errorf("no node has a port %d", port.Port)
		}
	}
	var err error
	if c.Affinity, err = b.neighbours(c, p.Affinity); err != nil {
		return fmt.Errorf("pod affinity: %w", err)
	}
	if c.AntiAffinity, err = b.neighbours(c, p.AntiAffinity); err != nil {
		return fmt.Errorf("pod anti-affinity: %w", err)
	}
	for _, n := range c.AntiAffinity {
		if n.Weight == 0 {
			c.ownTerms = append(c.ownTerms, b.terms.of(n.Key, n.Pods, c))
		}
	}
	return nil
}

func (b *Builder) neighbours(c *PodClass, terms []PodAffinityTerm) ([]AffinityTerm, error) {
	var out []AffinityTerm
	for i := range terms {
		t := &terms[i]
		if t.Key == "" {
			return nil, faultf(map[string]any{"field": "topologyKey"}, "a term has no topologyKey")
		}
		g, err := b.selector(t.Select)
		if err != nil {
			return nil, err
		}
		c.named = append(c.named, g)
		out = append(out, AffinityTerm{Key: b.space.Key(t.Key), Pods: g, Weight: t.Weight})
	}
	return out, nil
}

// admit registers a new class and matches it with every selector.
func (b *Builder) admit(c *PodClass) {
	b.classes[c.key] = c
	for _, label := range c.mentions {
		b.mentioned[label]++
	}
	for label, value := range c.labels {
		at := anchor(label, value)
		b.labelled[at] = append(b.labelled[at], c)
		for _, g := range b.anchored[at] {
			b.enlist(g, c)
		}
	}
	for _, g := range b.anchored[""] {
		b.enlist(g, c)
	}
}

// dismiss removes a class that has no pods any more.
func (b *Builder) dismiss(c *PodClass) {
	delete(b.classes, c.key)
	for _, label := range c.mentions {
		b.releaseLabel(label)
	}
	for id := range c.selectors.Clone().All() {
		b.selectorByID[id].forget(c)
	}
	for label, value := range c.labels {
		at := anchor(label, value)
		if b.labelled[at] = drop(b.labelled[at], c); len(b.labelled[at]) == 0 {
			delete(b.labelled, at)
		}
	}
	for _, r := range c.ownTerms {
		b.terms.release(r, c)
	}
	for _, g := range c.named {
		b.releaseSelector(g)
	}
	if c.refs--; c.refs == 0 {
		delete(b.shapes, c.PodShape.key)
		b.unask(c.PodShape)
		b.forgetShape(c.PodShape)
	} else if len(c.Preferred) > 0 {
		b.forgetVariants(c.PodShape) // other classes of the shape compile theirs again
	}
}

// forgetShape drops what the indexes remember about a shape and its variants.
func (b *Builder) forgetShape(s *PodShape) {
	for _, x := range b.indexes {
		x.forget(s)
	}
	b.forgetVariants(s)
}

func (b *Builder) forgetVariants(s *PodShape) {
	for _, v := range s.variants {
		for _, x := range b.indexes {
			x.forget(v)
		}
	}
	s.variants = nil
}

// selectors visits the selectors of the pod.
func selectors(p *Pod, visit func(*Selector)) {
	for i := range p.Spreads {
		visit(&p.Spreads[i].Select)
	}
	for i := range p.Affinity {
		visit(&p.Affinity[i].Select)
	}
	for i := range p.AntiAffinity {
		visit(&p.AntiAffinity[i].Select)
	}
}

// mentions lists the labels that the pod's selectors ask for, each once.
func mentions(p *Pod) []string {
	var out []string
	selectors(p, func(s *Selector) {
		for _, r := range s.Labels {
			if !slices.Contains(out, r.Key) {
				out = append(out, r.Key)
			}
		}
	})
	return out
}

// mentionAll notes the labels that the pod's selectors ask for. Existing classes do not
// distinguish pods by new labels, so pods that have such a label are assigned to classes again.
// The returned function, if any, must be called once the pod's class is known.
func (b *Builder) mentionAll(p *Pod) (done func()) {
	var fresh, again map[string]bool
	selectors(p, func(s *Selector) {
		for _, r := range s.Labels {
			switch asking, known := b.mentioned[r.Key]; {
			case asking > 0:
			case known:
				again = with(again, r.Key)
			default:
				fresh = with(fresh, r.Key)
			}
		}
	})
	if len(fresh)+len(again) == 0 {
		return nil
	}
	for _, labels := range []map[string]bool{fresh, again} {
		for label := range labels {
			b.mentioned[label]++ // until the class counts itself
			delete(b.former, label)
		}
	}
	if len(again) > 0 {
		b.refoldMoving(func(p *pod) bool { return bearsAny(p.labels, again) })
	}
	if len(fresh) > 0 {
		for _, q := range b.pods {
			if bearsAny(q.labels, fresh) {
				b.refold(q, b.moves(q))
			}
		}
	}
	return func() {
		for _, labels := range []map[string]bool{fresh, again} {
			for label := range labels {
				b.releaseLabel(label)
			}
		}
	}
}

func with(set map[string]bool, label string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[label] = true
	return set
}

// releaseLabel counts one class fewer that asks for the label.
func (b *Builder) releaseLabel(label string) {
	if b.mentioned[label]--; b.mentioned[label] == 0 {
		b.former[label] = true
	}
}

func bearsAny(has map[string]string, labels map[string]bool) bool {
	for label := range has {
		if labels[label] {
			return true
		}
	}
	return false
}

// moves reports whether the pod is to be placed: it is pending, or its node is leaving.
func (b *Builder) moves(p *pod) bool {
	return p.place == nil || p.place.host != nil && b.leaving[p.place.host]
}

// unmention reassigns pods that are to be placed and whose classes still differ in labels that
// no selector asks for any more. Bound pods that are not to be placed keep their classes:
// otherwise every selector that is added and removed would reassign all pods of a large
// cluster.
func (b *Builder) unmention() {
	if len(b.former) > 0 {
		b.refoldMoving(func(p *pod) bool { return bearsAny(p.class.labels, b.former) })
	}
}

// refoldMoving reassigns the pods that are to be placed and for which must holds.
func (b *Builder) refoldMoving(must func(*pod) bool) {
	var moving []*pod
	for c := range b.queue {
		for _, p := range c.waiting {
			if must(p) {
				moving = append(moving, p)
			}
		}
	}
	for h := range b.leaving {
		if h.place == nil {
			continue
		}
		for _, p := range h.place.pods {
			if must(p) {
				moving = append(moving, p)
			}
		}
	}
	for _, p := range moving {
		b.refold(p, true)
	}
}

// stays reassigns the pods at a place whose node was deleted, or is not leaving any more.
func (b *Builder) stays(at *place) {
	if len(b.former) == 0 {
		return
	}
	for _, p := range slices.Clone(at.pods) {
		b.refold(p, false)
	}
}

// Mentioned lists the labels that selectors ask for or asked for before, in no order.
func (b *Builder) Mentioned() []string { return slices.Collect(maps.Keys(b.mentioned)) }

// Mention makes the labels count as asked for before: the classes of pods that are not to be
// placed may differ in them. It is for a new Builder that replaces another one, before it gets
// any pods.
func (b *Builder) Mention(labels ...string) {
	for _, label := range labels {
		b.mentioned[label], b.former[label] = 0, true
	}
}

// refold moves a pod to the class that fits the labels mentioned by now.
func (b *Builder) refold(p *pod, exact bool) {
	old := p.class
	s := &b.scratch
	s.reset()
	s.bytes = append(s.bytes, old.body...)
	s.labels(p.labels, b, exact)
	c := b.classes[string(s.bytes)]
	if c == old {
		return
	}
	if c == nil {
		c = b.split(old, string(s.bytes), b.kept(p.labels, exact))
	}
	b.leave(p)
	p.class = c
	b.join(p)
	if old.pods == 0 {
		b.dismiss(old)
	}
}

// split copies a class for pods with other labels.
func (b *Builder) split(old *PodClass, key string, labels map[string]string) *PodClass {
	c := *old
	c.key, c.body, c.labels = key, key[:len(old.body)], labels
	c.selectors, c.pods, c.on, c.waiting, c.Pods = nil, 0, map[*place]headcount{}, nil, nil
	c.refs++
	c.ownTerms = nil
	for _, g := range c.named {
		g.refs++
	}
	for _, r := range old.ownTerms {
		c.ownTerms = append(c.ownTerms, b.terms.of(r.Key, r.Pods, &c))
	}
	b.admit(&c)
	return &c
}
