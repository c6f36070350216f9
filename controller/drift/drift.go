// SPDX-License-Identifier: Apache-2.0

// Package drift marks NodeClaims whose instance is not what would be launched
// for them now: the condition Drifted, by which disruption replaces them in its own time.
//
// It concludes nothing from data that is missing, partial or about an
// older spec: if a rule cannot be decided, the condition is kept. It makes no requests to the
// cloud. The zero Reconciler is not usable; all fields but Drifter are required.
package drift

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/lookup"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

// Name is the reconciler's in logs and metrics; Karpenter calls it so.
const Name = "nodeclaim.disruption"

// reconcileEvery is how often a claim is reconciled when no event queues it.
const reconcileEvery = 5 * time.Minute

// Reconciler keeps the condition Drifted of NodeClaims.
type Reconciler struct {
	Client  client.Client
	Catalog *catalog.Keeper
	// Drifter is the provider's; nil when it has none.
	Drifter provider.Drifter
	Events  *events.Recorder
	Metrics *metrics.Set
	Log     logr.Logger
	// NodeClassGVK is the kind of node class that this installation serves.
	NodeClassGVK schema.GroupVersionKind
	// Panics is notified of panics while drift that the Drifter reports is handled; nil recovers
	// nothing.
	Panics *panics.Reporter

	missing missingOfferings
}

// Reconcile checks one claim.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	name := claim.Labels[karpv1.NodePoolLabelKey]
	if claim.DeletionTimestamp != nil || name == "" || !kube.OfKind(claim.Spec.NodeClassRef, r.NodeClassGVK.GroupKind()) {
		return reconcile.Result{}, nil // the claim has no pool, so no template
	}
	stored := claim.DeepCopy()
	if !kube.ConditionTrue(claim, karpv1.ConditionTypeLaunched) {
		clearDrift(claim)
		return write.RetryConflict(reconcile.Result{}, write.Status(ctx, r.Client, claim, stored))
	}
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return reconcile.Result{RequeueAfter: reconcileEvery}, client.IgnoreNotFound(err)
	}
	v := r.applyRules(ctx, claim, pool)
	v.setCondition(claim)
	if err := write.Status(ctx, r.Client, claim, stored); err != nil {
		return write.RetryConflict(reconcile.Result{}, err)
	}
	r.report(claim, stored)
	return reconcile.Result{RequeueAfter: reconcileEvery}, nil
}

// result is the first drift that is certain, and the reasons before it that could
// not be decided; providerRule stands for all reasons of the provider.
type result struct {
	finding
	undecidedRules []string
}

const providerRule = ""

// applyRules applies the rules in Karpenter's order.
func (r *Reconciler) applyRules(ctx context.Context, claim *karpv1.NodeClaim, pool *karpv1.NodePool) result {
	class := kube.ClassOf(claim.Spec.NodeClassRef)
	if err := r.Catalog.Ensure(ctx, class); err != nil {
		r.Log.V(1).Info("catalog incomplete, going on with what is known", "nodeclass", class, "error", err.Error())
	}
	catalog := r.Catalog.Latest(class)
	var v result
	for _, rule := range []struct {
		reason string
		look   func() finding
	}{
		{NodePoolDrifted, func() finding { return templateDrift(claim, pool) }},
		{RequirementsDrifted, func() finding { return requirementsDrift(claim, pool, catalog) }},
		{InstanceTypeNotFound, func() finding { return r.missing.offeringDrift(claim, class, catalog, time.Now()) }},
		{providerRule, func() finding { return r.providerDrift(ctx, claim, class) }},
	} {
		switch v.finding = rule.look(); {
		case v.reason != "":
			return v
		case v.undecided:
			v.undecidedRules = append(v.undecidedRules, rule.reason)
		}
	}
	return v
}

// providerDrift asks the provider, with the cluster's data about the instance.
func (r *Reconciler) providerDrift(ctx context.Context, claim *karpv1.NodeClaim, class string) finding {
	if r.Drifter == nil {
		return finding{}
	}
	m := provider.LaunchedNode{
		Claim: claim.Name, ProviderID: claim.Status.ProviderID, Class: class,
		Type: claim.Labels[corev1.LabelInstanceTypeStable], ImageID: claim.Status.ImageID, Annotations: claim.Annotations,
	}
	nodes, err := lookup.NodesOf(ctx, r.Client, claim)
	if err == nil && len(nodes) == 1 {
		m.KubeletVersion, m.NodeLabels = nodes[0].Status.NodeInfo.KubeletVersion, nodes[0].Labels
	}
	drift, err := r.Drifter.Drift(ctx, m)
	if err != nil {
		if notReady := new(provider.NotReadyError); !errors.As(err, &notReady) { // reported on the class
			r.Log.V(1).Info("cannot determine whether the instance has drifted", "nodeclaim", claim.Name, "error", err.Error())
		}
		return finding{undecided: true}
	}
	return finding{reason: drift.Reason, detail: drift.Detail}
}

// setCondition writes the result to the condition. A reason that was given before and cannot be
// decided now is kept: it was certain once.
func (v result) setCondition(claim *karpv1.NodeClaim) {
	if v.reason != "" {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeDrifted, v.reason, v.detail)
		return
	}
	if was := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); was == nil || !slices.Contains(v.undecidedRules, ruleOf(was.Reason)) {
		clearDrift(claim)
	}
}

// ruleOf is the rule that gives a reason.
func ruleOf(reason string) string {
	switch reason {
	case NodePoolDrifted, RequirementsDrifted, InstanceTypeNotFound:
		return reason
	}
	return providerRule
}

func clearDrift(claim *karpv1.NodeClaim) {
	_ = claim.StatusConditions().Clear(karpv1.ConditionTypeDrifted) // fails for dependents only
}

// report reports the change in events and metrics.
func (r *Reconciler) report(claim, stored *karpv1.NodeClaim) {
	now, was := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted), stored.StatusConditions().Get(karpv1.ConditionTypeDrifted)
	switch pool := claim.Labels[karpv1.NodePoolLabelKey]; {
	case now.IsTrue() && !was.IsTrue():
		r.Metrics.ClaimsDrifted.WithLabelValues(pool, now.Reason).Inc()
		r.Events.Publish(events.Event{About: claim, Reason: karpv1.ConditionTypeDrifted, Message: now.Reason + ": " + now.Message})
		r.Log.Info("nodeclaim has drifted", "nodeclaim", claim.Name, "nodepool", pool, "node", claim.Status.NodeName, "reason", now.Reason, "detail", now.Message)
	case was.IsTrue() && !now.IsTrue():
		r.Log.Info("nodeclaim is no longer drifted", "nodeclaim", claim.Name, "nodepool", pool, "node", claim.Status.NodeName, "reason", was.Reason)
	}
}
