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

const longestMessage = 300 // of a condition or event that quotes the provider

// launch drives the claim's instance until the cloud reports it as running. The provider ID is
// kept as soon as it is known: from then on even a claim deleted during the launch finds its
// instance by it.
func (s *step) launch(ctx context.Context) error {
	if kube.ConditionTrue(s.claim, karpv1.ConditionTypeLaunched) {
		return nil
	}
	s.unseen = s.claim.Status.ProviderID != ""
	choices, err := s.choices(ctx)
	if classMissing(err) {
		return s.withoutClass(ctx, err)
	}
	if err != nil {
		return s.launchFailed(ctx, "InstanceTypeResolutionFailed", err)
	}
	machine, err := s.buy(ctx, choices)
	if machine.ProviderID != "" {
		s.claim.Status.ProviderID, s.unseen = machine.ProviderID, false
	}
	if err != nil {
		return s.refused(ctx, err)
	}
	if err := s.remember(ctx, machine.LaunchState); err != nil {
		return err
	}
	if err := s.findNode(ctx); err != nil {
		return err
	}
	if !up(machine, s.node != nil) {
		s.await(machine)
		return nil
	}
	return s.launched(ctx, machine)
}

// remember stores the provider's launch state on the claim for the next call of Launch. It comes
// before everything else: the next call may be made by another process.
func (s *step) remember(ctx context.Context, memory map[string]string) error {
	annotations := merged(s.claim.Annotations, memory)
	maps.DeleteFunc(annotations, func(key, value string) bool {
		_, told := memory[key]
		return told && value == ""
	})
	if maps.Equal(annotations, s.claim.Annotations) {
		return nil
	}
	changed := s.stored.DeepCopy()
	changed.Annotations = annotations
	if err := s.Client.Patch(ctx, changed, client.MergeFrom(s.stored)); err != nil {
		return fmt.Errorf("noting on nodeclaim %s how its instance is created: %w", s.claim.Name, err)
	}
	return s.adopt(changed)
}

// up reports whether the instance counts as launched. A node that joined is proof enough, and the
// cloud may report Running much later. But the claim must show its instance type, so the cloud
// must have reported at least that.
func up(machine provider.Instance, joined bool) bool {
	return machine.State == provider.Running || joined && machine.Type != ""
}

// buy calls the provider to launch the claim's instance. When no offering that the claim accepts
// is available any more (its own launch may have used the last of a quota), only an instance that
// exists counts.
func (s *step) buy(ctx context.Context, choices []offering.Ref) (provider.Instance, error) {
	if len(choices) > 0 {
		return s.Provider.Launch(ctx, kube.LaunchClaim(s.claim, choices))
	}
	nothing := fmt.Errorf("none of its offerings can be launched now: %w", &provider.CapacityError{Claim: s.claim.Name})
	if s.claim.Status.ProviderID == "" {
		return provider.Instance{}, nothing
	}
	machine, err := s.Provider.Get(ctx, s.claim.Status.ProviderID)
	if errors.Is(err, provider.ErrNotFound) || err == nil && machine.State != provider.Creating && machine.State != provider.Running {
		return provider.Instance{}, nothing
	}
	return machine, err
}

// choices returns the offerings that the claim accepts. They are computed from the claim alone, so
// a new leader can continue the launch.
func (s *step) choices(ctx context.Context) ([]offering.Ref, error) {
	class := kube.ClassOf(s.claim.Spec.NodeClassRef)
	if err := s.Catalog.Ensure(ctx, class); err != nil {
		return nil, err
	}
	return s.Mirror.Offerings(s.claim)
}

func (s *step) await(machine provider.Instance) {
	message := fmt.Sprintf("instance %s is %s", machine.Name, machine.State)
	if n := len(machine.Attempts); n > 0 && machine.ProviderID == "" {
		last := machine.Attempts[n-1]
		message = fmt.Sprintf("instance %s is not launched yet: %s was refused with %s: %s", machine.Name, last.Offering.Type, last.Code, last.Detail)
	}
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, "Launching", shorten(message))
	if machine.RetryAfter <= 0 {
		machine.RetryAfter = soon
	}
	s.again(machine.RetryAfter)
}

// refused handles the provider's errors. No capacity, and a node class that is missing or not
// ready, delete the claim: another decision is better than waiting here. While the readiness of a
// class is still being determined, the claim waits.
func (s *step) refused(ctx context.Context, err error) error {
	var capacity *provider.CapacityError
	var notReady *provider.NotReadyError
	var failed *provider.LaunchError
	switch {
	case errors.As(err, &capacity):
		if err := s.note(ctx, cmp.Or(capacity.Reason, "InsufficientCapacity"), err); err != nil {
			return err
		}
		s.say("InsufficientCapacityError", err)
		s.Log.Info("insufficient capacity, deleting nodeclaim", "nodeclaim", s.claim.Name, "reason", err.Error())
		return s.remove(ctx, "insufficient_capacity")
	case classMissing(err):
		return s.withoutClass(ctx, err)
	case errors.As(err, &notReady) && notReady.Unsettled:
		return s.launchFailed(ctx, "NodeClassReadinessUnknown", err)
	case errors.As(err, &notReady):
		if err := s.note(ctx, "NodeClassNotReady", err); err != nil {
			return err
		}
		s.say("NodeClassNotReady", err)
		s.Log.Info("node class not ready, deleting nodeclaim", "nodeclaim", s.claim.Name, "reason", err.Error())
		return s.remove(ctx, "nodeclass_not_ready")
	case errors.As(err, &failed) && failed.Reason != "":
		return s.launchFailed(ctx, failed.Reason, err)
	}
	return s.launchFailed(ctx, "LaunchFailed", err)
}

// note writes why the launch failed before the claim is deleted: otherwise the claim would never
// show the reason.
func (s *step) note(ctx context.Context, reason string, err error) error {
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, reason, shorten(err.Error()))
	if err := s.save(ctx, nil); err != nil {
		return err
	}
	s.stored = s.claim.DeepCopy()
	return nil
}

func (s *step) say(reason string, err error) {
	s.Events.Publish(events.Event{About: s.claim, Warning: true, Reason: reason,
		Message: fmt.Sprintf("NodeClaim %s event: %s", s.claim.Name, shorten(err.Error()))})
}

// launchFailed keeps the claim and retries with back-off until the timeout.
func (s *step) launchFailed(ctx context.Context, reason string, err error) error {
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, reason, shorten(err.Error()))
	if gone := s.giveUp(ctx); gone != nil || s.over {
		return gone
	}
	return fmt.Errorf("launching nodeclaim %s: %w", s.claim.Name, err)
}

// launched records the instance that was launched. Labels are written first: they are metadata,
// and a claim with the condition Launched must have them.
func (s *step) launched(ctx context.Context, machine provider.Instance) error {
	if err := s.label(ctx, machine); err != nil {
		return err
	}
	st := &s.claim.Status
	st.ImageID = machine.ImageID
	extra := s.Catalog.Extra(kube.ClassOf(s.claim.Spec.NodeClassRef), machine.Type)
	st.Capacity = kube.ResourceList(with(machine.Capacity, extra))
	st.Allocatable = kube.ResourceList(with(machine.Allocatable, extra))
	s.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	s.news = append(s.news, func() {
		s.stage("launched")
		s.Log.Info("launched nodeclaim", "nodeclaim", s.claim.Name, "provider-id", st.ProviderID, "instance-type", machine.Type,
			"zone", machine.Zone, "capacity-type", machine.CapacityType, "price", machine.Price.USD(), "allocatable", st.Allocatable)
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
func (s *step) label(ctx context.Context, machine provider.Instance) error {
	labels := maps.Clone(machine.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, s.claim.Labels)
	for key, value := range map[string]string{
		cluster.LabelInstanceType: machine.Type,
		cluster.LabelZone:         machine.Zone,
		cluster.LabelCapacityType: machine.CapacityType,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	annotations := maps.Clone(s.claim.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, machine.Annotations)
	for key := range machine.LaunchState {
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
	return s.adopt(changed)
}

// adopt takes over the metadata of a newer version and keeps the status that is being changed. If
// the newer version has another status than this pass began with, the pass ends with a conflict:
// with the newer resource version, save would overwrite the newer status with a stale one, and
// what an earlier pass reported would be reported again.
func (s *step) adopt(newer *karpv1.NodeClaim) error {
	if !equality.Semantic.DeepEqual(newer.Status, s.stored.Status) {
		return apierrors.NewConflict(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, s.claim.Name,
			errors.New("its status was written meanwhile"))
	}
	s.claim.ObjectMeta = *newer.ObjectMeta.DeepCopy()
	s.stored.ObjectMeta = *newer.ObjectMeta.DeepCopy()
	return nil
}

// stage records the time from the claim's creation to this stage.
func (s *step) stage(name string) {
	s.Metrics.LaunchSeconds.WithLabelValues(name).Observe(time.Since(s.claim.CreationTimestamp.Time).Seconds())
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > longestMessage {
		return string(runes[:longestMessage-1]) + "…"
	}
	return text
}
