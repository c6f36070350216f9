package kube

import (
	"maps"
	"reflect"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
)

// choicesOf lists the offerings that a claim without an instance accepts. They are computed once
// per catalog: a burst of launches asks for them thousands of times.
func (m *Mirror) choicesOf(c *karpv1.NodeClaim) []offering.Ref {
	if len(c.Status.Allocatable) > 0 {
		delete(m.offerings, c.Name)
		return nil
	}
	cat := m.catalogs[ClassOf(c.Spec.NodeClassRef)]
	known, ok := m.offerings[c.Name]
	if cat == nil || ok && known.of == cat {
		return known.choices
	}
	choices, err := Offerings(c, cat.Types)
	if err != nil {
		return nil // the launch reports the error
	}
	m.offerings[c.Name] = memo{of: cat, choices: choices}
	return choices
}

// SetPool adds or replaces a NodePool. One with another kind of node class is ignored; a pool
// cannot change its kind.
func (m *Mirror) SetPool(p *karpv1.NodePool) { m.change(func() news { return m.setPool(p) }) }

func (m *Mirror) setPool(p *karpv1.NodePool) news {
	if m.Class.Kind != "" && !OfKind(p.Spec.Template.Spec.NodeClassRef, m.Class) {
		return news{}
	}
	old := m.pools[p.Name]
	m.pools[p.Name] = p
	changed := old == nil || !reflect.DeepEqual(Pool(old), Pool(p))
	if changed || newsOfPool(old, p) {
		m.moved()
	}
	if changed {
		m.builder.SetPool(Pool(p))
	}
	return anything(changed)
}

// RemovePool forgets a NodePool.
func (m *Mirror) RemovePool(p *karpv1.NodePool) {
	m.change(func() news { return m.removePool(p) })
}

func (m *Mirror) removePool(p *karpv1.NodePool) news {
	m.moved()
	delete(m.pools, p.Name)
	m.builder.RemovePool(p.Name)
	return news{}
}

// SetCatalog sets the instance types of a node class and the quota that is left, by name.
func (m *Mirror) SetCatalog(class string, types []offering.InstanceType, budgets map[string]int64) {
	m.change(func() news { m.setCatalog(class, types, budgets); return news{} })
}

func (m *Mirror) setCatalog(class string, types []offering.InstanceType, budgets map[string]int64) {
	if !maps.Equal(m.budgets[class], budgets) {
		m.moved()
	}
	m.budgets[class] = budgets
	if cat := m.catalogs[class]; cat.same(types) {
		m.builder.SetCatalog(class, cat.Types, budgets)
		return
	}
	m.setTypes(class, types, m.limits.lower(types))
}

// setTypes sets the instance types of a class to types. original is the list as the provider gave
// it.
func (m *Mirror) setTypes(class string, original, types []offering.InstanceType) {
	m.moved()
	m.builder.SetCatalog(class, types, m.budgets[class])
	cat := NewCatalog(types)
	cat.original = original
	m.catalogs[class] = cat
	for name, c := range m.claims {
		if ClassOf(c.Spec.NodeClassRef) == class {
			m.tellClaim(name)
		}
	}
}

// RemoveCatalog forgets the instance types of a node class. If a pool or claim uses the class
// after all, its catalog must be set again.
func (m *Mirror) RemoveCatalog(class string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved()
	delete(m.catalogs, class)
	delete(m.budgets, class)
	m.builder.RemoveCatalog(class)
}

// Classes lists the node classes that pools and claims refer to, sorted.
func (m *Mirror) Classes() []string {
	m.lock()
	defer m.mu.Unlock()
	classes := map[string]bool{}
	for _, p := range m.pools {
		classes[ClassOf(p.Spec.Template.Spec.NodeClassRef)] = true
	}
	for _, c := range m.claims {
		classes[ClassOf(c.Spec.NodeClassRef)] = true
	}
	delete(classes, "")
	return slices.Sorted(maps.Keys(classes))
}

// Offerings lists the offerings that a claim accepts, cheapest first, from the last catalog that
// was set. The error names the requirement that cannot be read.
func (m *Mirror) Offerings(c *karpv1.NodeClaim) ([]offering.Ref, error) {
	m.lock()
	cat := m.catalogs[ClassOf(c.Spec.NodeClassRef)]
	known, ok := m.offerings[c.Name]
	m.mu.Unlock()
	if ok && known.of == cat || cat == nil {
		return known.choices, nil
	}
	return Offerings(c, cat.Types) // outside the lock: it takes milliseconds
}
