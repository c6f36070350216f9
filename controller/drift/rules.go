// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/constraint"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Reasons of drift that do not depend on the provider, as Karpenter spells them.
const (
	NodePoolDrifted      = "NodePoolDrifted"
	RequirementsDrifted  = "RequirementsDrifted"
	InstanceTypeNotFound = "InstanceTypeNotFound"
)

// minAge is the age below which a claim's type is not looked up: a catalog that is incomplete for a
// moment must not disrupt instances that were just launched.
const minAge = time.Hour

// A finding is the result of one rule: drift, none, or undecided.
type finding struct {
	reason, detail string // an empty reason means no drift
	undecided      bool
}

// templateDrift compares the pool's template with the one the claim was made from.
// Hashes of different versions cannot be compared, nor can a missing one.
func templateDrift(c *karpv1.NodeClaim, pool *karpv1.NodePool) finding {
	then, now := c.Annotations, pool.Annotations
	hash, version := karpv1.NodePoolHashAnnotationKey, karpv1.NodePoolHashVersionAnnotationKey
	if then[hash] == "" || now[hash] == "" || then[version] == "" || then[version] != now[version] || then[hash] == now[hash] {
		return finding{}
	}
	return finding{reason: NodePoolDrifted, detail: "the template of NodePool " + pool.Name + " was changed"}
}

// requirementsDrift compares the labels of the claim's node with the pool's current
// requirements. A label that the claim lacks is taken from its instance type;
// if that lacks it, it is drift only where no new claim would lack it and no catalog has it.
func requirementsDrift(c *karpv1.NodeClaim, pool *karpv1.NodePool, catalog *provider.Catalog) finding {
	set, err := constraint.NewInterner().Set(kube.Rules(pool.Spec.Template.Spec.Requirements))
	if err != nil {
		return finding{undecided: true} // the pool's conditions report the error
	}
	labels, undecided := labelsOf(c, catalog), false
	for _, q := range set {
		value, ok := labels[q.Key.Name]
		switch {
		case ok && !q.Admits(q.Key.ID(value)):
			return finding{reason: RequirementsDrifted, detail: q.Key.Name + " is " + value + ", the pool asks for: " + q.String()}
		case ok || q.AdmitsAbsent():
		case catalog == nil || isTypeLabel(catalog.Types, q.Key.Name):
			undecided = true
		default:
			if _, one := q.Single(); one {
				return finding{reason: RequirementsDrifted, detail: q.Key.Name + " is missing, the pool asks for: " + q.String()}
			}
		}
	}
	return finding{undecided: undecided}
}

// labelsOf returns the claim's labels by today's names, with those of its type and offering.
func labelsOf(c *karpv1.NodeClaim, catalog *provider.Catalog) map[string]string {
	labels := map[string]string{}
	if t := typeOf(c, catalog); t != nil {
		addSingleValues(labels, t.Labels)
		if i := offeringOf(c, t); i >= 0 {
			addSingleValues(labels, t.Offerings[i].Labels)
		}
	}
	maps.Copy(labels, c.Labels)
	for old, today := range karpv1.NormalizedLabels {
		if value, ok := labels[old]; ok && labels[today] == "" {
			labels[today] = value
		}
	}
	return labels
}

func addSingleValues(into map[string]string, labels map[string][]string) {
	for key, values := range labels {
		if len(values) == 1 {
			into[key] = values[0]
		}
	}
}

func typeOf(c *karpv1.NodeClaim, catalog *provider.Catalog) *offering.InstanceType {
	if catalog == nil {
		return nil
	}
	i := slices.IndexFunc(catalog.Types, func(t offering.InstanceType) bool { return t.Name == c.Labels[cluster.LabelInstanceType] })
	if i < 0 {
		return nil
	}
	return &catalog.Types[i]
}

// offeringOf returns the index of the offering that the claim's instance was launched with, -1
// if the type has none; available or not. Reserved instances may continue as ordinary ones.
func offeringOf(c *karpv1.NodeClaim, t *offering.InstanceType) int {
	zone, capacityType := c.Labels[cluster.LabelZone], c.Labels[cluster.LabelCapacityType]
	return slices.IndexFunc(t.Offerings, func(o offering.Offering) bool {
		return o.Zone == zone && (o.CapacityType == capacityType || capacityType == karpv1.CapacityTypeReserved && o.CapacityType == offering.OnDemand)
	})
}

// isTypeLabel reports whether the key is a label of instance types.
func isTypeLabel(types []offering.InstanceType, key string) bool {
	if key == cluster.LabelInstanceType || key == cluster.LabelZone || key == cluster.LabelCapacityType {
		return true
	}
	return slices.ContainsFunc(types, func(t offering.InstanceType) bool {
		return len(t.Labels[key]) > 0 || slices.ContainsFunc(t.Offerings, func(o offering.Offering) bool { return len(o.Labels[key]) > 0 })
	})
}

// missingOfferings remembers what was missing from a complete catalog, by class and offering,
// and since when this process knows. The zero value remembers nothing.
type missingOfferings struct {
	mu    sync.Mutex
	since map[offeringKey]missingTimes
}

// missingTimes is since when an offering is missing, and when a claim was last checked for it.
type missingTimes struct{ since, lastAsked time.Time }

// missingTTL is how long a missing offering is remembered after the last claim was checked for
// it: claims are reconciled every few minutes.
const missingTTL = time.Hour

type offeringKey struct{ class, name, zone, capacityType string }

// offeringDrift reports drift when the claim's instance type, or the offering it was launched with,
// does not exist any more. One list is not enough, since the cloud's answer may be incomplete: it
// must be missing again from data that was read after it was first missing.
func (a *missingOfferings) offeringDrift(c *karpv1.NodeClaim, class string, catalog *provider.Catalog, now time.Time) finding {
	of := offeringKey{class, c.Labels[cluster.LabelInstanceType], c.Labels[cluster.LabelZone], c.Labels[cluster.LabelCapacityType]}
	switch {
	case now.Sub(c.CreationTimestamp.Time) < minAge:
		return finding{}
	case of.name == "" || of.zone == "" || of.capacityType == "" || catalog == nil || catalog.Listed.IsZero() || len(catalog.Types) == 0:
		return finding{undecided: true}
	}
	t := typeOf(c, catalog)
	if t == nil && mayBeUnreadable(catalog, of.name) {
		return finding{undecided: true}
	}
	if t != nil && offeringOf(c, t) >= 0 {
		a.recordFound(of)
		return finding{}
	}
	if missed := a.recordMissing(of, now); !catalog.Listed.After(missed) {
		return finding{undecided: true}
	}
	return finding{reason: InstanceTypeNotFound, detail: "nothing is known of " + of.name + " in " + of.zone + " as " + of.capacityType}
}

// mayBeUnreadable reports whether the type may be there, among the types that could not be read.
func mayBeUnreadable(catalog *provider.Catalog, name string) bool {
	return slices.ContainsFunc(catalog.Unread, func(u string) bool { return u == "" || strings.EqualFold(u, name) })
}

// recordMissing records that the offering is missing now, and returns since when it is.
func (a *missingOfferings) recordMissing(of offeringKey, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	x, ok := a.since[of]
	if !ok {
		maps.DeleteFunc(a.since, func(_ offeringKey, x missingTimes) bool { return now.Sub(x.lastAsked) > missingTTL })
		x.since = now
	}
	if x.lastAsked = now; a.since == nil {
		a.since = map[offeringKey]missingTimes{}
	}
	a.since[of] = x
	return x.since
}

// recordFound records that the offering exists.
func (a *missingOfferings) recordFound(of offeringKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, of)
}
