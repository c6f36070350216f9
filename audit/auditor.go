// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Auditor finds violations in what it is fed with; see the package's doc. Times that it is given must
// not decrease: one that does counts as the latest so far.
type Auditor struct {
	settings Settings
	cluster  *cluster
	findings findings
	now      time.Time
	forgot   time.Time // when what is gone was forgotten last

	judges   []judge
	canaries *canaries
}

// A judge decides about one invariant, or a few that look at the same. It embeds unmoved, which does
// nothing, and overrides what it has to see. The cluster is up to date when it is called.
type judge interface {
	claim(at time.Time, was *karpv1.NodeClaim, x *claim)
	node(at time.Time, was *corev1.Node, x *node)
	pod(at time.Time, was *corev1.Pod, x *pod)
	pool(at time.Time, x *pool)
	pdb(at time.Time, x *pdb)
	event(at time.Time, e *corev1.Event)
	lease(at time.Time, l *coordinationv1.Lease)
	cloud(at time.Time, resources []Resource)
	request(at time.Time, r Request)
	check(at time.Time)
	// disturbed is about bounds on time only.
	disturbed(at time.Time)
}

type unmoved struct{}

func (unmoved) claim(time.Time, *karpv1.NodeClaim, *claim) {}
func (unmoved) node(time.Time, *corev1.Node, *node)        {}
func (unmoved) pod(time.Time, *corev1.Pod, *pod)           {}
func (unmoved) pool(time.Time, *pool)                      {}
func (unmoved) pdb(time.Time, *pdb)                        {}
func (unmoved) event(time.Time, *corev1.Event)             {}
func (unmoved) lease(time.Time, *coordinationv1.Lease)     {}
func (unmoved) cloud(time.Time, []Resource)                {}
func (unmoved) request(time.Time, Request)                 {}
func (unmoved) check(time.Time)                            {}
func (unmoved) disturbed(time.Time)                        {}

// bench is what every judge has: the settings, the cluster, and where violations go.
type bench struct {
	unmoved
	settings Settings
	cluster  *cluster
	findings *findings
}

func (b *bench) violation(invariant, object string, since time.Time, message string) {
	b.findings.add(Violation{Invariant: invariant, Object: object, Since: since, Message: message})
}

// New returns an Auditor that has seen nothing.
func New(s Settings) *Auditor {
	a := &Auditor{settings: s.withDefaults(), cluster: newCluster(), findings: findings{counts: map[string]int{}}}
	b := bench{settings: a.settings, cluster: a.cluster, findings: &a.findings}
	a.canaries = &canaries{bench: b, found: map[string]bool{}}
	a.judges = []judge{
		newLeaks(b), newPairs(b), newLimits(b), newEvictions(b), newBudgets(b), newReplacements(b),
		newWaiting(b), newMismatches(b), newTerminations(b),
		newOwnership(b), newProtections(b), newRates(b), newCycles(b), newFencing(b), newRecords(b), newLaunches(b), newIdle(b),
	}
	return a
}

// Object tells of an object that was created (was is nil), changed, or is gone (is is nil). Objects of
// kinds that say nothing about any invariant are ignored. The Auditor keeps the objects and does not
// change them.
func (a *Auditor) Object(at time.Time, was, is client.Object) {
	if was != nil && is != nil && was.GetUID() != is.GetUID() { // another object of the same name
		a.Object(at, was, nil)
		was = nil
	}
	at = a.advance(at)
	seen := is
	if seen == nil {
		seen = was
	}
	switch seen.(type) {
	case *karpv1.NodeClaim:
		a.claimChanged(at, as[*karpv1.NodeClaim](was), as[*karpv1.NodeClaim](is))
	case *corev1.Node:
		a.nodeChanged(at, as[*corev1.Node](was), as[*corev1.Node](is))
	case *corev1.Pod:
		a.podChanged(at, as[*corev1.Pod](was), as[*corev1.Pod](is))
	case *karpv1.NodePool:
		a.poolChanged(at, as[*karpv1.NodePool](was), as[*karpv1.NodePool](is))
	case *policyv1.PodDisruptionBudget:
		a.pdbChanged(at, as[*policyv1.PodDisruptionBudget](was), as[*policyv1.PodDisruptionBudget](is))
	case *corev1.Event:
		if e := as[*corev1.Event](is); e != nil {
			a.cluster.event(at, e)
			a.each(func(j judge) { j.event(at, e) })
		}
	case *coordinationv1.Lease:
		if l := as[*coordinationv1.Lease](is); l != nil {
			a.each(func(j judge) { j.lease(at, l) })
		}
	}
	if is != nil {
		a.canaries.object(at, is)
	}
}

// as is the object as that type; nil when it is nil.
func as[T client.Object](o client.Object) T {
	x, _ := o.(T)
	return x
}

func (a *Auditor) claimChanged(at time.Time, was, is *karpv1.NodeClaim) {
	var x *claim
	if is == nil {
		x = a.cluster.removeClaim(at, was)
	} else {
		x = a.cluster.setClaim(at, is)
	}
	a.each(func(j judge) { j.claim(at, was, x) })
}

func (a *Auditor) nodeChanged(at time.Time, was, is *corev1.Node) {
	var x *node
	if is == nil {
		x = a.cluster.removeNode(at, was)
	} else {
		x = a.cluster.setNode(at, is)
	}
	a.each(func(j judge) { j.node(at, was, x) })
}

func (a *Auditor) podChanged(at time.Time, was, is *corev1.Pod) {
	var x *pod
	if is == nil {
		x = a.cluster.removePod(at, was)
	} else {
		x = a.cluster.setPod(at, is)
	}
	a.each(func(j judge) { j.pod(at, was, x) })
}

func (a *Auditor) poolChanged(at time.Time, was, is *karpv1.NodePool) {
	name := client.Object(is)
	if is == nil {
		name = was
	}
	x := a.cluster.pools[name.GetName()]
	if x == nil {
		x = &pool{}
		a.cluster.pools[name.GetName()] = x
	}
	if is == nil {
		x.NodePool = was
		x.leave(at)
	} else {
		x.NodePool = is
		x.observe(at, is)
		x.specs.set(at, &is.Spec, a.settings.Remember)
	}
	a.each(func(j judge) { j.pool(at, x) })
}

func (a *Auditor) pdbChanged(at time.Time, was, is *policyv1.PodDisruptionBudget) {
	x := a.cluster.setPDB(at, was, is, 2*a.settings.ObjectLag)
	a.each(func(j judge) { j.pdb(at, x) })
}

// Cloud tells what the cloud has: all of its VMs, network interfaces and disks, of this cluster at
// least. A list that could not be had is not told.
func (a *Auditor) Cloud(at time.Time, resources []Resource) {
	at = a.advance(at)
	a.each(func(j judge) { j.cloud(at, resources) })
}

// Request tells of a request that karve made.
func (a *Auditor) Request(at time.Time, r Request) {
	at = a.advance(at)
	a.each(func(j judge) { j.request(at, r) })
}

// Text tells of what karve wrote elsewhere, such as a line of its log or its metrics.
func (a *Auditor) Text(at time.Time, source, text string) {
	a.canaries.search(a.advance(at), source, text)
}

// Disturbed tells that something outside karve failed until now, such as the API server or the cloud:
// bounds on time begin anew.
func (a *Auditor) Disturbed(at time.Time) {
	at = a.advance(at)
	a.each(func(j judge) { j.disturbed(at) })
}

// Check tells that time has passed, and returns the violations found since the last Check, by what
// happened and by what has become late. Each is returned once.
func (a *Auditor) Check(at time.Time) []Violation {
	at = a.advance(at)
	a.each(func(j judge) { j.check(at) })
	if at.Sub(a.forgot) > time.Minute {
		a.cluster.forget(at.Add(-a.settings.Remember), at.Add(-time.Minute-2*a.settings.ObjectLag))
		a.forgot = at
	}
	return a.findings.untold()
}

// Violations returns the violations found so far, oldest first; when there are very many, the newest
// of them.
func (a *Auditor) Violations() []Violation { return slices.Clone(a.findings.all) }

// Counts returns how many violations of each invariant were found; invariants without any are missing.
func (a *Auditor) Counts() map[string]int { return maps.Clone(a.findings.counts) }

func (a *Auditor) each(do func(judge)) {
	for _, j := range a.judges {
		do(j)
	}
}

func (a *Auditor) advance(at time.Time) time.Time {
	if at.After(a.now) {
		a.now = at
	}
	return a.now
}
