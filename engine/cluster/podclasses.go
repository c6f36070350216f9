// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"math"
	"slices"

	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/reason"
)

// podClasses keeps the pod classes that have pods.
type podClasses struct {
	interner     *constraint.Interner
	labels       *selectorLabels
	shapes       podShapes
	selectors    podSelectors
	antiAffinity antiAffinityTerms

	byKey   map[string]*PodClass
	pending map[*PodClass]bool // classes with pending pods
	// listed are the classes whose PodsToPlace listed pods of nodes marked for deletion in the last
	// Snapshot.
	listed  []*PodClass
	scratch signature
}

func newPodClasses(labels *selectorLabels, shapes podShapes) podClasses {
	return podClasses{
		interner: shapes.interner, labels: labels, shapes: shapes, selectors: newPodSelectors(),
		antiAffinity: antiAffinityTerms{byKey: map[string]*AntiAffinityTerm{}},
		byKey:        map[string]*PodClass{}, pending: map[*PodClass]bool{},
	}
}

// getOrAdd returns the class of a pod, and adds it for the first pod of its kind. The labels of
// the pod's selectors must be in use already.
func (cs *podClasses) getOrAdd(p *Pod) *PodClass {
	toBePlaced := p.Node == ""
	s := &cs.scratch
	s.reset()
	s.shape(p)
	shapeLen := len(s.bytes)
	s.body(p)
	bodyLen := len(s.bytes)
	s.labels(p.Labels, cs.labels, toBePlaced)
	if c := cs.byKey[string(s.bytes)]; c != nil {
		c.unused.addOf(p.Labels, s.names)
		return c
	}
	key := string(s.bytes)
	c := &PodClass{
		PodShape: cs.shapes.acquire(p, key[:shapeLen]), Priority: p.Priority, Virtual: p.Virtual,
		Preferred: preferredTerms(cs.interner, p.Preferred), namespace: p.Namespace,
		labels: s.distinguishing(p.Labels), selectedLabels: labelsSelectedBy(p),
		key: key, bodyLen: bodyLen,
	}
	c.unused.addOf(p.Labels, s.names)
	c.Refused, c.Detail, c.Facts = c.PodShape.Refused, c.PodShape.Detail, c.PodShape.Facts
	if p.Refused != "" {
		c.Refused, c.Detail, c.Facts = p.Refused, p.RefusedDetail, p.RefusedFacts
	}
	if err := cs.compileConstraints(c, p); err != nil && c.Refused == "" {
		c.Refused, c.Detail, c.Facts = reason.Invalid, err.Error(), factsOf(err)
	}
	cs.add(c)
	return c
}

// currentOrSplit returns the class that fits the labels of a known pod that selectors use by now.
// It splits the pod's class if there is none.
func (cs *podClasses) currentOrSplit(p *pod, toBePlaced bool) *PodClass {
	s := &cs.scratch
	s.reset()
	s.bytes = append(s.bytes, p.class.key[:p.class.bodyLen]...)
	s.labels(p.labels, cs.labels, toBePlaced)
	c := cs.byKey[string(s.bytes)]
	if c == nil {
		c = cs.split(p.class, string(s.bytes), s.distinguishing(p.labels))
	}
	c.unused.addOf(p.labels, s.names)
	return c
}

// split adds a copy of the class for pods with other labels.
func (cs *podClasses) split(old *PodClass, key string, labels []labelPair) *PodClass {
	c := *old
	c.key, c.labels = key, labels
	c.podTotal, c.podsOn, c.pending, c.PodsToPlace = 0, nil, nil, nil
	c.PodShape.users++
	c.ownTerms, c.unused = nil, unusedLabels{}
	for _, s := range c.usedSelectors {
		s.users++
	}
	for _, t := range old.ownTerms {
		c.ownTerms = append(c.ownTerms, cs.antiAffinity.acquire(t.Key, t.Selector, &c))
	}
	cs.add(&c)
	return &c
}

// add adds a new class.
func (cs *podClasses) add(c *PodClass) {
	cs.byKey[c.key] = c
	for _, label := range c.selectedLabels {
		cs.labels.use(label)
	}
	cs.selectors.addClass(c)
}

// removeIfEmpty removes the class when it has no pods any more.
func (cs *podClasses) removeIfEmpty(c *PodClass) {
	if c.podTotal > 0 {
		return
	}
	delete(cs.byKey, c.key)
	for _, label := range c.selectedLabels {
		cs.labels.release(label)
	}
	cs.selectors.removeClass(c)
	for _, t := range c.ownTerms {
		cs.antiAffinity.release(t, c)
	}
	for _, s := range c.usedSelectors {
		cs.selectors.release(s)
	}
	cs.shapes.release(c)
}

// addPending adds a pending pod to its class.
func (cs *podClasses) addPending(p *pod) {
	c := p.class
	p.index = len(c.pending)
	c.pending = append(c.pending, p)
	c.podsToPlaceStale = true
	if len(c.pending) == 1 {
		cs.pending[c] = true
	}
}

// removePending undoes addPending.
func (cs *podClasses) removePending(p *pod) {
	c := p.class
	c.pending = removeAt(c.pending, p.index)
	c.podsToPlaceStale = true
	if len(c.pending) == 0 {
		delete(cs.pending, c)
	}
}

// updateToBePlaced lists the classes that have pods to be placed, in order, and updates their
// PodsToPlace.
func (cs *podClasses) updateToBePlaced(nodes *nodeStore) []*PodClass {
	for _, c := range cs.listed {
		c.podsToPlaceStale = true
	}
	cs.listed = cs.listed[:0]
	toReschedule := nodes.podsToReschedule()
	out := make([]*PodClass, 0, len(cs.pending)+len(toReschedule))
	for c := range cs.pending {
		out = append(out, c)
	}
	for c := range toReschedule {
		if !cs.pending[c] {
			out = append(out, c)
		}
		c.podsToPlaceStale = true
		cs.listed = append(cs.listed, c)
	}
	for _, c := range out {
		if c.podsToPlaceStale {
			c.setPodsToPlace(toReschedule[c])
		}
	}
	slices.SortFunc(out, compareClasses)
	return out
}

// someMayHave reports whether pods of some class may have one of the labels, which distinguished no
// pods so far.
func (cs *podClasses) someMayHave(labels []string) bool {
	for _, c := range cs.byKey {
		if c.unused.mayHave(labels) {
			return true
		}
	}
	return false
}

// eachNodeRunning visits the nodes to which pods of these shapes are bound.
func (cs *podClasses) eachNodeRunning(shapes map[*PodShape]bool, f func(*nodePods)) {
	for _, c := range cs.byKey {
		if shapes[c.PodShape] {
			for bound := range c.podsOn {
				f(bound)
			}
		}
	}
}

// load is the number of classes and selectors.
func (cs *podClasses) load() int { return len(cs.byKey) + len(cs.selectors.byKey) }

// maxPorts bounds the host ports of one pod, as maxAlternatives bounds its affinity.
const maxPorts = 1000

// compileConstraints compiles the topology spread constraints and the pod (anti-)affinity of a
// class, and checks its host ports.
func (cs *podClasses) compileConstraints(c *PodClass, p *Pod) error {
	for i := range p.Spreads {
		s := &p.Spreads[i]
		if s.Key == "" || s.MaxSkew < 1 {
			return manifestErrorf(map[string]any{"key": s.Key, "maxSkew": int(s.MaxSkew)}, "topology spread over %q with a maxSkew of %d means nothing", s.Key, s.MaxSkew)
		}
		selector, err := cs.selectors.acquire(s.Selector)
		if err != nil {
			return fmt.Errorf("topology spread over %s: %w", s.Key, err)
		}
		c.usedSelectors = append(c.usedSelectors, selector)
		c.Spreads = append(c.Spreads, TopologySpread{
			Key: cs.interner.Key(s.Key), Selector: selector, MaxSkew: int(s.MaxSkew), MinDomains: max(1, int(s.MinDomains)),
			Soft: s.Soft, IgnoreAffinity: s.IgnoreAffinity, HonorTaints: s.HonorTaints,
		})
	}
	if err := checkPorts(p.Ports); err != nil {
		return err
	}
	var err error
	if c.Affinity, err = cs.affinityTerms(c, p.Affinity, requiredSelectors(p.Affinity)); err != nil {
		return fmt.Errorf("pod affinity: %w", err)
	}
	if c.AntiAffinity, err = cs.affinityTerms(c, p.AntiAffinity, nil); err != nil {
		return fmt.Errorf("pod anti-affinity: %w", err)
	}
	for _, t := range c.AntiAffinity {
		if t.Weight == 0 {
			c.ownTerms = append(c.ownTerms, cs.antiAffinity.acquire(t.Key, t.Selector, c))
		}
	}
	return nil
}

func checkPorts(ports []Port) error {
	if len(ports) > maxPorts {
		return manifestErrorf(map[string]any{"ports": len(ports), "most": maxPorts}, "it asks for %d host ports, more than %d", len(ports), maxPorts)
	}
	for _, port := range ports {
		if port.Port < 1 || port.Port > math.MaxUint16 {
			return fmt.Errorf("no node has a port %d", port.Port)
		}
	}
	return nil
}

// requiredSelectors returns the selectors of the required terms; none for a single term.
func requiredSelectors(terms []PodAffinityTerm) []Selector {
	if len(terms) == 1 {
		return nil
	}
	var out []Selector
	for i := range terms {
		if terms[i].Weight == 0 {
			out = append(out, terms[i].Selector)
		}
	}
	return out
}

// affinityTerms compiles terms of pod affinity or anti-affinity of the class. Required terms have
// the selectors in together, if there are any, in place of their own: kube-scheduler counts for
// each required term of pod affinity only the pods that match all of them
// (podMatchesAllAffinityTerms in its plugin interpodaffinity).
func (cs *podClasses) affinityTerms(c *PodClass, terms []PodAffinityTerm, together []Selector) ([]AffinityTerm, error) {
	var out []AffinityTerm
	for i := range terms {
		t := &terms[i]
		if t.Key == "" {
			return nil, manifestErrorf(map[string]any{"field": "topologyKey"}, "a term has no topologyKey")
		}
		selectors := together
		if t.Weight != 0 || len(together) == 0 {
			selectors = []Selector{t.Selector}
		}
		selector, err := cs.selectors.acquire(selectors...)
		if err != nil {
			return nil, err
		}
		c.usedSelectors = append(c.usedSelectors, selector)
		out = append(out, AffinityTerm{Key: cs.interner.Key(t.Key), Selector: selector, Weight: t.Weight})
	}
	return out, nil
}
