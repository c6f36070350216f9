// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/provider"
)

// Source reads the overlays that apply now, from memory: it is asked before every decision.
type Source func(context.Context) (Overlays, error)

// Overlays are overlays with a version: the same version means the same overlays.
type Overlays struct {
	Version string
	List    []offering.Overlay
}

// publish applies overlays to the catalog and updates the mirror with the changes.
// While overlays cannot be read those read last are used; before they are first read
// nothing is published, since decisions on wrong prices launch wrong instances.
func (k *Keeper) publish(ctx context.Context) error {
	overlays, err := k.readOverlays(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.overlays.Version == "" {
		return err
	}
	if err == nil {
		k.applyOverlays(overlays)
	}
	return err
}

func (k *Keeper) readOverlays(ctx context.Context) (Overlays, error) {
	if k.Overlays == nil {
		return Overlays{}, nil
	}
	overlays, err := k.Overlays(ctx)
	if err != nil {
		return overlays, fmt.Errorf("reading node overlays: %w", err)
	}
	return overlays, nil
}

// applyOverlays recomputes all catalogs when overlays or the types of any class changed:
// overlays that conflict in one class are out in all.
func (k *Keeper) applyOverlays(overlays Overlays) {
	classes := slices.Sorted(maps.Keys(k.last))
	stale := overlays.Version != k.overlays.Version
	for _, class := range classes {
		stale = stale || !sameTypes(k.published[class].source, k.last[class])
	}
	k.overlays = overlays
	if !stale {
		k.publishQuotas(classes)
		return
	}
	adjusted, _ := offering.ApplyOverlays(k.types(classes), overlays.List)
	for i, class := range classes {
		catalog := k.last[class]
		k.published[class] = publishedCatalog{Overlaid: adjusted[i], source: catalog}
		k.mirror.SetCatalog(class, adjusted[i].Types, catalog.QuotaLeft)
	}
}

// publishQuotas passes on catalogs that differ only in the quota that is left.
func (k *Keeper) publishQuotas(classes []string) {
	for _, class := range classes {
		s, catalog := k.published[class], k.last[class]
		if s.source == catalog {
			continue
		}
		s.source = catalog
		k.published[class] = s
		k.mirror.SetCatalog(class, s.Types, catalog.QuotaLeft)
	}
}

func (k *Keeper) types(classes []string) [][]offering.InstanceType {
	out := make([][]offering.InstanceType, 0, len(classes))
	for _, class := range classes {
		out = append(out, k.last[class].Types)
	}
	return out
}

// sameTypes reports whether both hold the very same slice: see provider.Catalog.
func sameTypes(a, b *provider.Catalog) bool {
	if a == nil || len(a.Types) != len(b.Types) {
		return false
	}
	return len(a.Types) == 0 || &a.Types[0] == &b.Types[0]
}

// OverlayProblems returns what is wrong with the overlays, given all instance types.
func (k *Keeper) OverlayProblems(overlays []offering.Overlay) []offering.OverlayProblem {
	k.mu.Lock()
	types := k.types(slices.Sorted(maps.Keys(k.last)))
	k.mu.Unlock()
	_, faults := offering.ApplyOverlays(types, overlays)
	return faults
}

// Touched reports whether overlays changed the price or the capacity of any of
// the types among the offerings.
func (k *Keeper) Touched(class string, choices []offering.Ref) (price, capacity bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.published[class]
	for _, c := range choices {
		price, capacity = price || s.PriceChanged[c.Type], capacity || s.CapacityChanged[c.Type]
	}
	return price, capacity
}

// Extra returns the resources that overlays added to instances of a type: the cloud does not have
// them in its catalog and will not report them.
func (k *Keeper) Extra(class, name string) quantity.Amounts {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.published[class]
	if !s.CapacityChanged[name] {
		return nil
	}
	named := func(t offering.InstanceType) bool { return t.Name == name }
	i := slices.IndexFunc(s.Types, named)
	extra := quantity.Amounts{}
	for resource, n := range s.Types[i].Capacity {
		if s.source.Types[i].Capacity[resource] != n {
			extra[resource] = n
		}
	}
	return extra
}
