// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// catalogs holds the instance types of each node class, with the attach limits that nodes
// reported, and the offerings that claims without an instance accept.
type catalogs struct {
	byClass  map[string]*limitedCatalog
	accepted map[string]accepted // by claim, while its instance type is not chosen
	limits   *attachLimits
	// limitsChanged is set when the catalogs do not have the newest limits yet. They are compiled
	// anew when the Snapshot is next read: a thousand nodes may report at once.
	limitsChanged bool
}

// limitedCatalog is the catalog of a node class. Its types may be a copy, with smaller attach
// limits, of the original list that the provider gave.
type limitedCatalog struct {
	types    *kube.InstanceTypes
	original []offering.InstanceType
	quota    map[string]int64 // as last set
}

// accepted is the offerings of instance types that a claim accepts.
type accepted struct {
	of        *kube.InstanceTypes
	offerings []offering.Ref
}

func newCatalogs() *catalogs {
	return &catalogs{byClass: map[string]*limitedCatalog{}, accepted: map[string]accepted{}, limits: newAttachLimits()}
}

// of is the instance types of the claim's node class, nil when they are not known.
func (s *catalogs) of(c *karpv1.NodeClaim) *kube.InstanceTypes {
	if l := s.byClass[kube.ClassOf(c.Spec.NodeClassRef)]; l != nil {
		return l.types
	}
	return nil
}

// convertNode converts the claim and its Node, which may be nil, as its instance type and the
// storage drivers on the node complete them.
func (s *catalogs) convertNode(n *corev1.Node, c *karpv1.NodeClaim) cluster.Node {
	types := s.of(c)
	w := kube.Node(n, c, types, s.offeringsOf(c, types))
	s.limits.apply(&w, types.Find(w.Labels[cluster.LabelInstanceType]))
	if !s.limits.hasDrivers(w.Name) {
		// Storage drivers label a node, with keys of their own, when they start there. Until then
		// a pod whose disk is in the node's zone would not match the node.
		w.Labels = types.Complete(w.Labels)
	}
	return w
}

// offeringsOf lists the offerings that a claim without an instance accepts. They are computed
// once per list of types: a burst of launches asks for them thousands of times.
func (s *catalogs) offeringsOf(c *karpv1.NodeClaim, types *kube.InstanceTypes) []offering.Ref {
	if len(c.Status.Allocatable) > 0 {
		delete(s.accepted, c.Name)
		return nil
	}
	known, ok := s.accepted[c.Name]
	if types == nil || ok && known.of == types {
		return known.offerings
	}
	list, err := kube.Offerings(c, types.List)
	if err != nil {
		return nil // the launch reports the error
	}
	s.accepted[c.Name] = accepted{of: types, offerings: list}
	return list
}

// cachedOfferings returns the list that offeringsOf computed before. The list is current if ok is
// set; types are those to compute it from otherwise, nil when there are none.
func (s *catalogs) cachedOfferings(c *karpv1.NodeClaim) (list []offering.Ref, types *kube.InstanceTypes, ok bool) {
	types = s.of(c)
	known, had := s.accepted[c.Name]
	return known.offerings, types, types == nil || had && known.of == types
}

// accept records the offerings that a claim was made for.
func (s *catalogs) accept(c *karpv1.NodeClaim, offerings []offering.Ref) {
	s.accepted[c.Name] = accepted{of: s.of(c), offerings: offering.RotateZones(offerings, string(c.UID))}
}

// copyAccepted copies from old catalogs the offerings that a claim accepts.
func (s *catalogs) copyAccepted(claim string, old *catalogs) { s.accepted[claim] = old.accepted[claim] }

// forgetClaim forgets the offerings that a claim accepts.
func (s *catalogs) forgetClaim(name string) { delete(s.accepted, name) }

// set sets the instance types of a node class, as the provider gives them, and its quota. It
// returns the catalog to be written to the Snapshot, and whether quota and types differ from
// before.
func (s *catalogs) set(class string, types []offering.InstanceType, quota map[string]int64) (c classCatalog, newQuota, newTypes bool) {
	old := s.byClass[class]
	newQuota = len(quota) > 0 && old == nil || old != nil && !maps.Equal(old.quota, quota)
	if old != nil && sameSlice(old.original, types) {
		old.quota = quota
		return classCatalog{old.types.List, quota}, newQuota, false
	}
	return s.put(class, &limitedCatalog{kube.NewInstanceTypes(s.limits.lower(types)), types, quota}), newQuota, true
}

// sameSlice reports whether b is the very slice a, not just an equal one.
func sameSlice(a, b []offering.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (s *catalogs) put(class string, c *limitedCatalog) classCatalog {
	s.byClass[class] = c
	return classCatalog{c.types.List, c.quota}
}

// remove forgets the catalog of a node class.
func (s *catalogs) remove(class string) { delete(s.byClass, class) }

// applyLimits adjusts the catalogs to the newest attach limits, and returns those that changed,
// by class.
func (s *catalogs) applyLimits() map[string]classCatalog {
	if !s.limitsChanged {
		return nil
	}
	s.limitsChanged = false
	changed := map[string]classCatalog{}
	for class, c := range s.byClass {
		types := s.limits.lower(c.original)
		if !sameLimits(types, c.types.List) {
			changed[class] = s.put(class, &limitedCatalog{kube.NewInstanceTypes(types), c.original, c.quota})
		}
	}
	return changed
}

// sameLimits compares two versions of one list of types.
func sameLimits(a, b []offering.InstanceType) bool {
	return slices.EqualFunc(a, b, func(a, b offering.InstanceType) bool { return maps.Equal(a.Capacity, b.Capacity) })
}

// setCSINode records the CSINode in which a node's storage drivers report their limits; nil when it
// was deleted.
func (s *catalogs) setCSINode(node string, n *storagev1.CSINode) {
	s.limitsChanged = s.limits.setCSINode(node, n) || s.limitsChanged
}

// setInstanceType records the instance type of a node; "" when it is not known.
func (s *catalogs) setInstanceType(node, instanceType string) {
	s.limitsChanged = s.limits.setInstanceType(node, instanceType) || s.limitsChanged
}
