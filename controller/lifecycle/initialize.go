// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/kube"
)

// initialize waits until the node can run the pods that were promised capacity on it. If the Node
// was deleted from outside and its kubelet created it again, that is marked in its turn; the claim
// stays initialized.
func (s *pass) initialize(ctx context.Context) error {
	if s.node == nil || !kube.ConditionTrue(s.claim, karpv1.ConditionTypeRegistered) {
		return nil
	}
	before := kube.ConditionTrue(s.claim, karpv1.ConditionTypeInitialized)
	if before && isInitialized(s.node) {
		return nil
	}
	if reason, message := initializationObstacle(s.node, s.claim); reason != "" {
		if !before {
			s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeInitialized, reason, message)
		}
		return nil // an event of the Node queues the claim
	}
	if err := s.markInitialized(ctx); err != nil || before {
		return err
	}
	s.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	s.afterSave = append(s.afterSave, func() {
		s.stage("initialized")
		s.Log.Info("initialized nodeclaim", "nodeclaim", s.claim.Name, "provider-id", s.claim.Status.ProviderID,
			"node", s.node.Name, "allocatable", s.node.Status.Allocatable)
	})
	return nil
}

func isInitialized(n *corev1.Node) bool { return n.Labels[karpv1.NodeInitializedLabelKey] == "true" }

const resourceNotRegistered = "ResourceNotRegistered"

// initializationObstacle is the first thing that keeps the node from being initialized, as a
// condition reason and a message; empty when there is none.
func initializationObstacle(n *corev1.Node, claim *karpv1.NodeClaim) (reason, message string) {
	if !kube.Ready(n) {
		return "NodeNotReady", "Node status is not Ready"
	}
	for _, t := range n.Spec.Taints {
		for _, startup := range claim.Spec.StartupTaints {
			if t.MatchTaint(&startup) {
				return "StartupTaintsExist", fmt.Sprintf("StartupTaint %q still exists", t.ToString())
			}
		}
	}
	for _, t := range n.Spec.Taints {
		if kube.Ephemeral(t) {
			return "KnownEphemeralTaintsExist", fmt.Sprintf("KnownEphemeralTaint %q still exists", t.ToString())
		}
	}
	for name, want := range claim.Spec.Resources.Requests {
		have := n.Status.Allocatable[name]
		if !want.IsZero() && have.IsZero() && launchedWith(claim, name) {
			return resourceNotRegistered, fmt.Sprintf("Resource %q was requested but not registered", name)
		}
	}
	return "", ""
}

// launchedWith reports whether the instance was launched with that resource. A claim without a
// recorded capacity promises everything it requests.
func launchedWith(claim *karpv1.NodeClaim, name corev1.ResourceName) bool {
	if len(claim.Status.Capacity) == 0 {
		return true
	}
	q := claim.Status.Capacity[name]
	return !q.IsZero()
}

func (s *pass) markInitialized(ctx context.Context) error {
	if isInitialized(s.node) {
		return nil
	}
	stored := s.node.DeepCopy()
	s.node.Labels = merged(s.node.Labels, map[string]string{karpv1.NodeInitializedLabelKey: "true"})
	if err := s.Client.Patch(ctx, s.node, client.MergeFrom(stored)); err != nil {
		return fmt.Errorf("marking node %s initialized: %w", stored.Name, err)
	}
	return nil
}

// replaceWithoutResource deletes a claim whose node has joined and never shows a resource that it
// was launched for, such as GPUs whose driver is broken. Its pods would wait for ever for that
// capacity, and nothing else would delete it: disruption ignores nodes that are not initialized.
// Any other obstacle is left to the users, who may be working on it.
func (s *pass) replaceWithoutResource(ctx context.Context) error {
	registered, c := s.StatusConditions().Get(karpv1.ConditionTypeRegistered), s.StatusConditions().Get(karpv1.ConditionTypeInitialized)
	if !registered.IsTrue() || c.IsTrue() || c.Reason != resourceNotRegistered {
		s.missingResourceSince.Delete(s.claim.Name)
		return nil
	}
	since, _ := s.missingResourceSince.LoadOrStore(s.claim.Name, time.Now())
	if left := resourceTimeout - time.Since(since.(time.Time)); left > 0 {
		s.requeue(left)
		return nil
	}
	s.Log.Info("terminating due to timeout", "nodeclaim", s.claim.Name, "condition", karpv1.ConditionTypeInitialized, "timeout", resourceTimeout.String(),
		"reason", c.Reason, "message", c.Message)
	if s.FailureObserver != nil {
		// Before a replacement is chosen.
		s.FailureObserver.NodeUnusable(kube.ClassOf(s.claim.Spec.NodeClassRef), kube.OfferingOf(s.claim), c.Message)
	}
	s.publish(c.Reason, errors.New(c.Message+": replacing the node"))
	if err := s.deleteClaim(ctx, "initialization_timeout"); err != nil {
		return err
	}
	s.Health.Record(s.claim.OwnerReferences, registrationhealth.Outcome{Failed: true, Reason: c.Reason, Message: c.Message})
	return nil
}

// deleteTimedOut deletes a claim that takes too long to launch, or whose node takes too long to
// register. An instance that was accepted and cannot be seen may be running, so it has until the
// registration timeout.
func (s *pass) deleteTimedOut(ctx context.Context) error {
	for _, t := range []struct {
		condition, why string
		after          time.Duration
	}{
		{karpv1.ConditionTypeLaunched, "launch_timeout", launchTimeout},
		{karpv1.ConditionTypeRegistered, "registration_timeout", registrationTimeout},
	} {
		c := s.StatusConditions().Get(t.condition)
		if c.IsTrue() || s.unobserved && t.condition == karpv1.ConditionTypeLaunched {
			continue
		}
		now := time.Now()
		wall := now.Round(0)
		if c.LastTransitionTime.Equal(&s.claim.CreationTimestamp) { // it is as the API server dated the claim
			wall = s.Clock.Now().Round(0)
		}
		if left := s.countdowns.left(s.claim.Name, t.condition, c.LastTransitionTime.Time, t.after, wall, now); left > 0 {
			s.requeue(left)
			return nil
		}
		s.Log.Info("terminating due to timeout", "nodeclaim", s.claim.Name, "condition", t.condition, "timeout", t.after.String(),
			"reason", c.Reason, "message", c.Message)
		if err := s.deleteClaim(ctx, t.why); err != nil {
			return err
		}
		s.Health.Record(s.claim.OwnerReferences, timeoutOutcome(t.condition, c.Reason, c.Message))
		return nil
	}
	s.countdowns.forget(s.claim.Name) // it has launched and its node has registered
	return nil
}

// timeoutOutcome is the outcome that is recorded for the pool when a claim is given up.
func timeoutOutcome(condition, why, message string) registrationhealth.Outcome {
	if condition == karpv1.ConditionTypeLaunched {
		return registrationhealth.Outcome{Failed: true, Reason: why, Message: message}
	}
	return registrationhealth.Outcome{Failed: true, Reason: "RegistrationFailed", Message: "Failed to register node"}
}
