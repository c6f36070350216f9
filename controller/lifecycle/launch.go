// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
)

type conditions = status.ConditionSet

const maxMessageLength = 300 // of a condition or event that quotes the provider

// launch drives the claim's instance until the cloud reports it as running. The provider ID is
// kept as soon as it is known: from then on even a claim deleted during the launch finds its
// instance by it. The name of the node is kept with it: a Node of another name is not the instance's.
func (s *pass) launch(ctx context.Context) error {
	if kube.ConditionTrue(s.claim, karpv1.ConditionTypeLaunched) {
		return nil
	}
	s.unobserved = s.claim.Status.ProviderID != ""
	choices, err := s.choices(ctx)
	if classMissing(err) {
		return s.handleMissingClass(ctx, err)
	}
	if err != nil {
		return s.launchFailed(ctx, "InstanceTypeResolutionFailed", err)
	}
	instance, err := s.callLaunch(ctx, choices)
	if instance.ProviderID != "" {
		s.claim.Status.ProviderID, s.unobserved = instance.ProviderID, false
		s.claim.Status.NodeName = cmp.Or(instance.NodeName, s.claim.Status.NodeName)
	}
	if err != nil {
		return s.handleLaunchError(ctx, err)
	}
	if err := s.storeLaunchState(ctx, instance.LaunchState); err != nil {
		return err
	}
	if err := s.findNode(ctx); err != nil {
		return err
	}
	if !countsAsLaunched(instance, s.node != nil) {
		s.setLaunching(instance)
		return nil
	}
	return s.launched(ctx, instance)
}

// storeLaunchState stores the provider's launch state on the claim for the next call of Launch. It
// comes before everything else: the next call may be made by another process.
func (s *pass) storeLaunchState(ctx context.Context, launchState map[string]string) error {
	annotations := merged(s.claim.Annotations, launchState)
	maps.DeleteFunc(annotations, func(key, value string) bool {
		_, present := launchState[key]
		return present && value == ""
	})
	if maps.Equal(annotations, s.claim.Annotations) {
		return nil
	}
	changed := s.stored.DeepCopy()
	changed.Annotations = annotations
	if err := s.Client.Patch(ctx, changed, client.MergeFrom(s.stored)); err != nil {
		return fmt.Errorf("noting on nodeclaim %s how its instance is created: %w", s.claim.Name, err)
	}
	return s.useStored(changed)
}

// countsAsLaunched reports whether the instance counts as launched. A node that joined is proof
// enough, and the cloud may report Running much later. But the claim must show its instance type,
// so the cloud must have reported at least that.
func countsAsLaunched(instance provider.Instance, joined bool) bool {
	return instance.State == provider.Running || joined && instance.Type != ""
}

// callLaunch calls the provider to launch the claim's instance. When no offering that the claim
// accepts is available any more (its own launch may have used the last of a quota), only an
// instance that exists counts.
func (s *pass) callLaunch(ctx context.Context, choices []offering.Ref) (provider.Instance, error) {
	if len(choices) > 0 {
		return s.Provider.Launch(ctx, kube.ProviderClaim(s.claim, choices))
	}
	nothing := fmt.Errorf("none of its offerings can be launched now: %w", &provider.CapacityError{Claim: s.claim.Name})
	if s.claim.Status.ProviderID == "" {
		return provider.Instance{}, nothing
	}
	instance, err := s.Provider.Get(ctx, s.claim.Status.ProviderID)
	if errors.Is(err, provider.ErrNotFound) || err == nil && instance.State != provider.Creating && instance.State != provider.Running {
		return provider.Instance{}, nothing
	}
	return instance, err
}

// choices returns the offerings that the claim accepts. They are computed from the claim alone, so
// a new leader can continue the launch.
func (s *pass) choices(ctx context.Context) ([]offering.Ref, error) {
	class := kube.ClassOf(s.claim.Spec.NodeClassRef)
	if err := s.Catalog.Ensure(ctx, class); err != nil {
		return nil, err
	}
	return s.Mirror.Offerings(s.claim)
}

func (s *pass) setLaunching(instance provider.Instance) {
	message := fmt.Sprintf("instance %s is %s", instance.Name, instance.State)
	if n := len(instance.Refused); n > 0 && instance.ProviderID == "" {
		last := instance.Refused[n-1]
		message = fmt.Sprintf("instance %s is not launched yet: %s was refused with %s: %s", instance.Name, last.Offering.Type, last.Code, last.Detail)
	}
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, "Launching", shorten(message))
	if instance.RetryAfter <= 0 {
		instance.RetryAfter = defaultRetry
	}
	s.requeue(instance.RetryAfter)
}

// handleLaunchError handles the provider's errors. No capacity, and a node class that is missing
// or not ready, delete the claim: another decision is better than waiting here. While the
// readiness of a class is still being determined, the claim waits.
func (s *pass) handleLaunchError(ctx context.Context, err error) error {
	var capacity *provider.CapacityError
	var notReady *provider.NotReadyError
	var failed *provider.LaunchError
	switch {
	case errors.As(err, &capacity):
		if err := s.saveReason(ctx, cmp.Or(capacity.Reason, "InsufficientCapacity"), err); err != nil {
			return err
		}
		s.publish("InsufficientCapacityError", err)
		s.Log.Info("insufficient capacity, deleting nodeclaim", "nodeclaim", s.claim.Name, "reason", err.Error())
		return s.deleteClaim(ctx, "insufficient_capacity")
	case classMissing(err):
		return s.handleMissingClass(ctx, err)
	case errors.As(err, &notReady) && notReady.Unsettled:
		return s.launchFailed(ctx, "NodeClassReadinessUnknown", err)
	case errors.As(err, &notReady):
		if err := s.saveReason(ctx, "NodeClassNotReady", err); err != nil {
			return err
		}
		s.publish("NodeClassNotReady", err)
		s.Log.Info("node class not ready, deleting nodeclaim", "nodeclaim", s.claim.Name, "reason", err.Error())
		return s.deleteClaim(ctx, "nodeclass_not_ready")
	case errors.As(err, &failed) && failed.Reason != "":
		return s.launchFailed(ctx, failed.Reason, err)
	}
	return s.launchFailed(ctx, "LaunchFailed", err)
}

// saveReason writes why the launch failed before the claim is deleted: otherwise the claim would
// never show the reason.
func (s *pass) saveReason(ctx context.Context, reason string, err error) error {
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, reason, shorten(err.Error()))
	if err := s.save(ctx, nil); err != nil {
		return err
	}
	s.stored = s.claim.DeepCopy()
	return nil
}

func (s *pass) publish(reason string, err error) {
	s.Events.Publish(events.Event{About: s.claim, Warning: true, Reason: reason,
		Message: fmt.Sprintf("NodeClaim %s event: %s", s.claim.Name, shorten(err.Error()))})
}

// launchFailed keeps the claim and retries with back-off until the timeout.
func (s *pass) launchFailed(ctx context.Context, reason string, err error) error {
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, reason, shorten(err.Error()))
	if gone := s.deleteTimedOut(ctx); gone != nil || s.done {
		return gone
	}
	return fmt.Errorf("launching nodeclaim %s: %w", s.claim.Name, err)
}

// launched records the instance that was launched. Labels are written first: they are metadata,
// and a claim with the condition Launched must have them.
func (s *pass) launched(ctx context.Context, instance provider.Instance) error {
	if err := s.label(ctx, instance); err != nil {
		return err
	}
	st := &s.claim.Status
	st.ImageID = instance.ImageID
	extra := s.Catalog.Extra(kube.ClassOf(s.claim.Spec.NodeClassRef), instance.Type)
	st.Capacity = kube.ResourceList(with(instance.Capacity, extra))
	st.Allocatable = kube.ResourceList(with(instance.Allocatable, extra))
	s.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	s.afterSave = append(s.afterSave, func() {
		s.stage("launched")
		s.Log.Info("launched nodeclaim", "nodeclaim", s.claim.Name, "provider-id", st.ProviderID, "instance-type", instance.Type,
			"zone", instance.Zone, "capacity-type", instance.CapacityType, "price", instance.Price.USD(), "allocatable", st.Allocatable)
	})
	return nil
}

// with replaces the amounts that an overlay sets.
func with(amounts, extra quantity.Amounts) quantity.Amounts {
	out := quantity.Amounts{}.Add(amounts)
	maps.Copy(out, extra)
	return out
}

// label gives the claim the labels of its instance, and the annotations that record how it was
// created. The patch works on a copy, since the response would overwrite the status that is being
// changed.
func (s *pass) label(ctx context.Context, instance provider.Instance) error {
	labels := maps.Clone(instance.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, s.claim.Labels)
	for key, value := range map[string]string{
		cluster.LabelInstanceType: instance.Type,
		cluster.LabelZone:         instance.Zone,
		cluster.LabelCapacityType: instance.CapacityType,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	annotations := maps.Clone(s.claim.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, instance.Annotations)
	for key := range instance.LaunchState {
		delete(annotations, key) // not needed after the launch
	}
	if maps.Equal(labels, s.claim.Labels) && maps.Equal(annotations, s.claim.Annotations) {
		return nil
	}
	changed := s.stored.DeepCopy()
	changed.Labels, changed.Annotations = labels, annotations
	if err := s.Client.Patch(ctx, changed, client.MergeFrom(s.stored)); err != nil {
		return fmt.Errorf("labelling nodeclaim %s: %w", s.claim.Name, err)
	}
	return s.useStored(changed)
}

// useStored takes over the metadata of a newer version and keeps the status that is being changed.
// If the newer version has another status than this pass began with, the pass ends with a
// conflict: with the newer resource version, save would overwrite the newer status with a stale
// one, and what an earlier pass reported would be reported again.
func (s *pass) useStored(newer *karpv1.NodeClaim) error {
	if !equality.Semantic.DeepEqual(newer.Status, s.stored.Status) {
		return apierrors.NewConflict(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, s.claim.Name,
			errors.New("its status was written meanwhile"))
	}
	s.claim.ObjectMeta = *newer.ObjectMeta.DeepCopy()
	s.stored.ObjectMeta = *newer.ObjectMeta.DeepCopy()
	return nil
}

// stage records the time from the claim's creation to this stage.
func (s *pass) stage(name string) {
	s.Metrics.LaunchSeconds.WithLabelValues(name).Observe(time.Since(s.claim.CreationTimestamp.Time).Seconds())
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > maxMessageLength {
		return string(runes[:maxMessageLength-1]) + "…"
	}
	return text
}
