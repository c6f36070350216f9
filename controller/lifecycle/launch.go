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

// launch drives the claim's machine until the cloud says that it runs. The
// provider ID is kept as soon as it is known: from then on even a claim deleted
// in the middle finds its machine by it.
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

// remember notes on the claim what the provider wants to be told next time. It goes
// before everything else: another process may be the one that asks.
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
		return fmt.Errorf("noting on nodeclaim %s how its machine is made: %w", s.claim.Name, err)
	}
	return s.adopt(changed)
}

// up reports whether the machine counts as launched. A node that joined is proof
// enough, and the cloud's word may come much later; but a claim must say what it
// runs on, so the cloud has to have said that much.
func up(machine provider.Instance, joined bool) bool {
	return machine.State == provider.Running || joined && machine.Type != ""
}

// buy drives the purchase. When nothing the claim accepts is on sale any more (its
// own purchase may have taken the last of a quota) only a machine that exists counts.
func (s *step) buy(ctx context.Context, choices []offering.Ref) (provider.Instance, error) {
	if len(choices) > 0 {
		return s.Provider.Launch(ctx, kube.Purchase(s.claim, choices))
	}
	nothing := fmt.Errorf("nothing that it accepts can be bought now: %w", &provider.CapacityError{Claim: s.claim.Name})
	if s.claim.Status.ProviderID == "" {
		return provider.Instance{}, nothing
	}
	machine, err := s.Provider.Get(ctx, s.claim.Status.ProviderID)
	if errors.Is(err, provider.ErrNotFound) || err == nil && machine.State != provider.Creating && machine.State != provider.Running {
		return provider.Instance{}, nothing
	}
	return machine, err
}

// choices are recomputed from the claim alone, so a new leader can go on with it.
func (s *step) choices(ctx context.Context) ([]offering.Ref, error) {
	class := kube.ClassOf(s.claim.Spec.NodeClassRef)
	if err := s.Catalog.Ensure(ctx, class); err != nil {
		return nil, err
	}
	return s.Mirror.Offerings(s.claim)
}

func (s *step) await(machine provider.Instance) {
	message := fmt.Sprintf("machine %s is %s", machine.Name, machine.State)
	if n := len(machine.Attempts); n > 0 && machine.ProviderID == "" {
		last := machine.Attempts[n-1]
		message = fmt.Sprintf("machine %s is not bought yet: %s was refused with %s: %s", machine.Name, last.Offering.Type, last.Code, last.Detail)
	}
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, "Launching", shorten(message))
	if machine.RetryAfter <= 0 {
		machine.RetryAfter = soon
	}
	s.again(machine.RetryAfter)
}

// refused sorts the provider's answers: nothing to be had and nothing to be done
// end the claim, since another decision is better than waiting here. What is still being found
// out of a class is waited for.
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

// note writes why the launch failed before the claim goes: who watches claims sees no other
// word of it.
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

// launchFailed keeps the claim and tries again with back-off, until the timeout.
func (s *step) launchFailed(ctx context.Context, reason string, err error) error {
	s.StatusConditions().SetUnknownWithReason(karpv1.ConditionTypeLaunched, reason, shorten(err.Error()))
	if gone := s.giveUp(ctx); gone != nil || s.over {
		return gone
	}
	return fmt.Errorf("launching nodeclaim %s: %w", s.claim.Name, err)
}

// launched records what was bought. Labels go first: they are metadata, and a
// claim that says Launched must have them.
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

// with replaces some amounts by those that an overlay tells.
func with(amounts, extra quantity.Amounts) quantity.Amounts {
	out := quantity.Amounts{}.Add(amounts)
	maps.Copy(out, extra)
	return out
}

// label gives the claim the labels of the machine it got, and notes how that was
// made. The patch works on a copy, since the answer would overwrite the status in hand.
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
		delete(annotations, key) // a launch that is over needs none
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

// adopt takes over the metadata of a newer version, keeping the status in hand. A newer
// version with another status than this pass began with ends the pass, as a conflict: with
// that version's number the lock of save would let a stale status be written, and what a
// pass before has found and told would be told again.
func (s *step) adopt(newer *karpv1.NodeClaim) error {
	if !equality.Semantic.DeepEqual(newer.Status, s.stored.Status) {
		return apierrors.NewConflict(schema.GroupResource{Group: "karpenter.sh", Resource: "nodeclaims"}, s.claim.Name,
			errors.New("its status was written meanwhile"))
	}
	s.claim.ObjectMeta = *newer.ObjectMeta.DeepCopy()
	s.stored.ObjectMeta = *newer.ObjectMeta.DeepCopy()
	return nil
}

// stage records how long after its creation the claim came this far.
func (s *step) stage(name string) {
	s.Metrics.LaunchSeconds.WithLabelValues(name).Observe(time.Since(s.claim.CreationTimestamp.Time).Seconds())
}

func shorten(text string) string {
	if runes := []rune(text); len(runes) > longestMessage {
		return string(runes[:longestMessage-1]) + "…"
	}
	return text
}
