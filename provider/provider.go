// SPDX-License-Identifier: Apache-2.0

// Package provider is the interface that every cloud implements: the offerings of a node class,
// and instances by NodeClaim. It is small on purpose; package providertest tests conformance.
//
// A Provider never decides what to launch. It gets an ordered list of acceptable offerings for
// one claim. It must never own two instances for one claim UID, however often it is called and
// whenever its process died.
package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// Provider launches, finds and terminates instances. Implementations are safe for concurrent use.
type Provider interface {
	// Name is the provider's name in metrics and logs ("azure").
	Name() string
	// Catalog returns the instance types of a node class as they were last read. Once a first
	// catalog exists it does not block on the cloud; a stale catalog is returned with its age.
	// The pointer changes exactly when the content does.
	Catalog(ctx context.Context, class string) (*Catalog, error)
	// Launch moves the claim's instance one step towards Running and returns its state. Call it
	// again (after Instance.RetryAfter) until the state is Running. Calling it twice for one
	// claim UID never launches twice, also across restarts. When every offering was refused the
	// error is a *CapacityError and no instance is left.
	Launch(ctx context.Context, claim Claim) (Instance, error)
	// Get finds one instance; ErrNotFound when it does not exist.
	Get(ctx context.Context, providerID string) (Instance, error)
	// List returns every instance this installation owns, including failed and incomplete ones.
	// An error means that the list is not complete and must not be acted on.
	List(ctx context.Context) ([]Instance, error)
	// Terminate deletes the instance with everything that belongs to it, one step per call: nil
	// means accepted or in progress, ErrNotFound that the instance does not exist any more.
	Terminate(ctx context.Context, providerID string) error
	// TerminateByClaim deletes any instance that exists for a claim whose provider ID was never
	// recorded; ErrNotFound when there is none.
	TerminateByClaim(ctx context.Context, claim Claim) error
}

// LeftoverCollector is a Provider whose instances have resources of their own (interfaces, disks)
// that may be left behind when an instance is deleted.
type LeftoverCollector interface {
	// CollectLeftovers deletes resources that belong to no instance, unless claimed reports that
	// the claim they were created for exists: its instance may be in creation. claimed gets an
	// empty uid for a resource that has no claim UID recorded; the name alone decides then. It
	// returns the resources that it deleted.
	CollectLeftovers(ctx context.Context, claimed func(name, uid string) bool) ([]string, error)
}

// ErrNotFound reports that the instance does not exist (any more).
var ErrNotFound = errors.New("instance not found")

// ErrForeign reports a provider ID that the cloud issues to no instance. It is an ErrNotFound:
// there is nothing to look for, and nothing to terminate.
var ErrForeign = fmt.Errorf("the provider ID is of another cloud: %w", ErrNotFound)

// Recognizer is a Provider that distinguishes its cloud's provider IDs from others.
type Recognizer interface {
	// Recognizes reports whether the cloud may have issued a provider ID. It decides by the ID
	// alone; calls with an ID that is not recognized fail with ErrForeign.
	Recognizes(providerID string) bool
}

// Catalog is the instance types of a node class at a point in time. It is never changed.
type Catalog struct {
	// Types is the very same slice from one catalog to the next as long as the types are equal,
	// so code that compiles them can detect a change by its first element.
	Types []offering.InstanceType
	// QuotaLeft is the rest of each quota that offerings use, by quota name. A quota that is not
	// listed is not limited.
	QuotaLeft map[string]int64
	// QuotaForecast is how fast quotas run out, by quota name. Quotas that do not shrink, or
	// whose rate is not known, are not listed. No decision depends on it.
	QuotaForecast map[string]Exhaustion
	// Taken is when the data was read from the cloud; the oldest part counts.
	Taken time.Time
	// Listed is when Types were last read completely, whatever else is missing; zero while that
	// fails.
	Listed time.Time
	// Unread are the instance types that the cloud lists and that could not be read, sorted. They
	// are not among Types, but still exist. An empty name stands for any type.
	Unread []string
	// Problem describes which data could not be refreshed since; empty when all is fresh.
	Problem string
}

// Exhaustion is a quota that shrinks.
type Exhaustion struct {
	Left int64
	// In is how long the rest lasts at the present rate.
	In time.Duration
}

// Claim is the part of a NodeClaim that a provider needs.
type Claim struct {
	Name, UID string
	Pool      string // NodePool; empty for stand-alone claims
	Class     string // node class
	// Offerings are the acceptable offerings, cheapest first.
	Offerings []offering.Ref
	// Labels and Taints that the node must register with, and StartupTaints as well.
	Labels                map[string]string
	Taints, StartupTaints []Taint
	// Requests is recorded with the instance and decides nothing here.
	Requests quantity.Amounts
	// LaunchState holds what Instance.LaunchState asked to keep, among other annotations of the
	// claim under karve.dev/. Any client that may write claims may have changed it, and it may be
	// missing: losing it costs time and nothing else.
	LaunchState map[string]string
	// Urgent asks for this instance before others: its pods are losing their node.
	Urgent bool
}

// Taint is a node taint.
type Taint struct{ Key, Value, Effect string }

// State is the phase of an instance.
type State string

const (
	Creating    State = "Creating"    // requested, not yet running
	Running     State = "Running"     // the cloud reports it as running
	Stopped     State = "Stopped"     // exists, but deallocated: it does not restart by itself
	Failed      State = "Failed"      // never started, or failed later
	Terminating State = "Terminating" // being deleted
)

// Lost reports whether an instance runs no pods and will not run any by itself.
func (s State) Lost() bool { return s == Stopped || s == Failed || s == Terminating }

// Instance is a virtual machine of the cloud.
type Instance struct {
	ProviderID   string
	Name         string // the cloud's name for it
	NodeName     string // name the node will register under
	ClaimName    string // NodeClaim it was launched for
	ClaimUID     string
	Pool         string
	State        State
	Type         string
	Zone         string
	CapacityType string
	Price        offering.Price
	ImageID      string
	// Labels are the node labels that follow from the instance's type and offering. The maps must
	// not be changed.
	Labels map[string]string
	// Annotations record on the claim how its instance was created, for Drifter to compare with
	// how it would be created today.
	Annotations map[string]string
	// LaunchState holds annotations under karve.dev/, 8 KiB at most together, that the next
	// Launch of the claim must get, in any process. They are stored before Launch is called
	// again; an empty value removes a key. Once the claim is launched its keys are removed.
	LaunchState           map[string]string
	Capacity, Allocatable quantity.Amounts
	Created               time.Time
	// RetryAfter is how long to wait before the next call while Creating.
	RetryAfter time.Duration
	// Refused are the offerings that this call did not launch, and why.
	Refused []RefusedOffering
}

// RefusedOffering is an offering that was not launched: the cloud refused it, or was known to.
type RefusedOffering struct {
	Offering offering.Ref
	Code     string // the cloud's error code
	Reason   string // Quota, OutOfStock, Restricted, Throttled, Network, Other
	Detail   string
}

// CapacityError reports that none of a claim's offerings can be launched for now.
type CapacityError struct {
	Claim   string
	Refused []RefusedOffering
	// Reason is as in LaunchError; empty when no offering was refused.
	Reason string
}

func (e *CapacityError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no capacity for %s: %d offerings refused", e.Claim, len(e.Refused))
	for i, a := range e.Refused {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(e.Refused)-i)
			break
		}
		fmt.Fprintf(&b, "; %s in %s (%s): %s", a.Offering.Type, a.Offering.Zone, a.Offering.CapacityType, a.Reason)
	}
	return b.String()
}

// LaunchError is a launch that failed for now. Reason is the one that Karpenter's provider for
// the same cloud writes into the condition Launched of a NodeClaim, because users may have alerts
// on it.
type LaunchError struct {
	Reason string
	Err    error
}

func (e *LaunchError) Error() string { return e.Err.Error() }
func (e *LaunchError) Unwrap() error { return e.Err }

// ClassNotFound is the reason of a NotReadyError when there is no such node class.
const ClassNotFound = "NodeClassNotFound"

// NotReadyError reports that no node can be launched for the node class yet.
type NotReadyError struct {
	Class, Reason, Detail string
	// Unsettled is set while the readiness of the class is still being determined.
	Unsettled bool
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("node class %s is not ready: %s: %s", e.Class, e.Reason, e.Detail)
}
