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

// youngest is the age below which a claim's type is not looked up: catalogs that
// flicker must not end instances that were launched a moment ago.
const youngest = time.Hour

// A finding is the result of one rule: drift, none, or undecided.
type finding struct {
	reason, detail string // empty reason: none
	open           bool   // undecided
}

// template compares the pool's template with the one the claim was made from.
// Hashes of different versions cannot be compared, nor can a missing one.
func template(c *karpv1.NodeClaim, pool *karpv1.NodePool) finding {
	then, now := c.Annotations, pool.Annotations
	hash, version := karpv1.NodePoolHashAnnotationKey, karpv1.NodePoolHashVersionAnnotationKey
	if then[hash] == "" || now[hash] == "" || then[version] == "" || then[version] != now[version] || then[hash] == now[hash] {
		return finding{}
	}
	return finding{reason: NodePoolDrifted, detail: "the template of NodePool " + pool.Name + " was changed"}
}

// requirements compares the labels of the claim's node with the pool's current
// requirements. A label that the claim lacks is taken from its instance type;
// if that lacks it, it is drift only where no new claim would lack it and no catalog has it.
func requirements(c *karpv1.NodeClaim, pool *karpv1.NodePool, sold *provider.Catalog) finding {
	set, err := constraint.NewSpace().Set(kube.Rules(pool.Spec.Template.Spec.Requirements))
	if err != nil {
		return finding{open: true} // the pool's conditions report the error
	}
	labels, open := known(c, sold), false
	for _, q := range set {
		value, ok := labels[q.Key.Name]
		switch {
		case ok && !q.Admits(q.Key.ID(value)):
			return finding{reason: RequirementsDrifted, detail: q.Key.Name + " is " + value + ", the pool asks for: " + q.String()}
		case ok || q.AdmitsAbsent():
		case sold == nil || carried(sold.Types, q.Key.Name):
			open = true
		default:
			if _, one := q.Single(); one {
				return finding{reason: RequirementsDrifted, detail: q.Key.Name + " is missing, the pool asks for: " + q.String()}
			}
		}
	}
	return finding{open: open}
}

// known returns the claim's labels by today's names, with those of its type and offering.
func known(c *karpv1.NodeClaim, sold *provider.Catalog) map[string]string {
	labels := map[string]string{}
	if t := typeOf(c, sold); t != nil {
		single(labels, t.Labels)
		if i := offerOf(c, t); i >= 0 {
			single(labels, t.Offerings[i].Labels)
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

func single(into map[string]string, labels map[string][]string) {
	for key, values := range labels {
		if len(values) == 1 {
			into[key] = values[0]
		}
	}
}

func typeOf(c *karpv1.NodeClaim, sold *provider.Catalog) *offering.InstanceType {
	if sold == nil {
		return nil
	}
	i := slices.IndexFunc(sold.Types, func(t offering.InstanceType) bool { return t.Name == c.Labels[cluster.LabelInstanceType] })
	if i < 0 {
		return nil
	}
	return &sold.Types[i]
}

// offerOf returns the index of the offering that the claim's instance was launched with, -1
// if the type has none; available or not. Reserved instances may continue as ordinary ones.
func offerOf(c *karpv1.NodeClaim, t *offering.InstanceType) int {
	zone, kind := c.Labels[cluster.LabelZone], c.Labels[cluster.LabelCapacityType]
	return slices.IndexFunc(t.Offerings, func(o offering.Offering) bool {
		return o.Zone == zone && (o.CapacityType == kind || kind == karpv1.CapacityTypeReserved && o.CapacityType == offering.OnDemand)
	})
}

// carried reports whether the key is a label of instance types.
func carried(types []offering.InstanceType, key string) bool {
	if key == cluster.LabelInstanceType || key == cluster.LabelZone || key == cluster.LabelCapacityType {
		return true
	}
	return slices.ContainsFunc(types, func(t offering.InstanceType) bool {
		return len(t.Labels[key]) > 0 || slices.ContainsFunc(t.Offerings, func(o offering.Offering) bool { return len(o.Labels[key]) > 0 })
	})
}

// absences remembers what was missing from a complete catalog, by class and offering,
// and since when this process knows. The zero value remembers nothing.
type absences struct {
	mu    sync.Mutex
	since map[offered]absence
}

// absence is since when something is missing, and when that was asked for last.
type absence struct{ since, asked time.Time }

// unasked is after how long an absence is forgotten that concerns no claim: claims are
// reconciled every few minutes.
const unasked = time.Hour

type offered struct{ class, name, zone, capacityType string }

// instanceType reports drift when the claim's instance type, or the offering it was launched with,
// does not exist any more. One look is not enough, since an answer of the cloud may be partial: it
// has to be missing again from data that was read after it was missed first.
func (a *absences) instanceType(c *karpv1.NodeClaim, class string, sold *provider.Catalog, now time.Time) finding {
	of := offered{class, c.Labels[cluster.LabelInstanceType], c.Labels[cluster.LabelZone], c.Labels[cluster.LabelCapacityType]}
	switch {
	case now.Sub(c.CreationTimestamp.Time) < youngest:
		return finding{}
	case of.name == "" || of.zone == "" || of.capacityType == "" || sold == nil || sold.Listed.IsZero() || len(sold.Types) == 0:
		return finding{open: true}
	}
	t := typeOf(c, sold)
	if t == nil && unread(sold, of.name) {
		return finding{open: true}
	}
	if t != nil && offerOf(c, t) >= 0 {
		a.forget(of)
		return finding{}
	}
	if missed := a.missed(of, now); !sold.Listed.After(missed) {
		return finding{open: true}
	}
	return finding{reason: InstanceTypeNotFound, detail: "nothing is known of " + of.name + " in " + of.zone + " as " + of.capacityType}
}

// unread reports whether the type may be there, in words that could not be read.
func unread(sold *provider.Catalog, name string) bool {
	return slices.ContainsFunc(sold.Unread, func(u string) bool { return u == "" || strings.EqualFold(u, name) })
}

// missed is when it was missed first.
func (a *absences) missed(of offered, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	x, ok := a.since[of]
	if !ok {
		maps.DeleteFunc(a.since, func(_ offered, x absence) bool { return now.Sub(x.asked) > unasked })
		x.since = now
	}
	if x.asked = now; a.since == nil {
		a.since = map[offered]absence{}
	}
	a.since[of] = x
	return x.since
}

func (a *absences) forget(of offered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, of)
}
