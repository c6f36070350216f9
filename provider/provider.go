// Package provider is the port every cloud implements: what is on sale for a
// node class, and machines by NodeClaim. It is small on purpose; conformance is
// held by providertest.
//
// A Provider never decides what to buy. It gets an ordered list of acceptable
// offers for one claim and must never own two machines for one claim UID,
// however often it is asked and whenever its process died.
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

// Provider buys, finds and returns machines. Implementations are safe for
// concurrent use.
type Provider interface {
	// Name is the provider's name in metrics and logs ("azure").
	Name() string
	// Catalog returns the last good snapshot of what is on sale for a node class.
	// It does not block on the cloud once a first snapshot exists; a stale one is
	// returned with its age. The pointer changes exactly when the content does.
	Catalog(ctx context.Context, class string) (*Snapshot, error)
	// Launch drives the claim's machine one step towards running and returns how it
	// stands. Call it again (after Instance.RetryAfter) until the state is Running.
	// Calling twice for one claim UID never buys twice, also across restarts. When
	// every choice was refused the error is a *CapacityError and no machine is left.
	Launch(ctx context.Context, claim Claim) (Instance, error)
	// Get finds one machine; ErrNotFound when it is gone.
	Get(ctx context.Context, providerID string) (Instance, error)
	// List returns every machine this installation owns, including failed and
	// half-built ones. An error means that the list is not complete and must not be acted on.
	List(ctx context.Context) ([]Instance, error)
	// Terminate gives the machine back with everything that belongs to it, one step
	// per call: nil means accepted or in progress, ErrNotFound that it is gone.
	Terminate(ctx context.Context, providerID string) error
	// Abandon gives back whatever machine exists for a claim that never learnt its
	// provider ID; ErrNotFound when there is none.
	TerminateUnclaimed(ctx context.Context, claim Claim) error
}

// OrphanCollector is a Provider whose machines are made of parts (interfaces, disks) that
// may stay behind when a machine goes.
type OrphanCollector interface {
	// Tidy gives back parts that belong to no machine, unless claimed reports that the
	// claim they were made for lives: its machine may be on its way. Parts of one who did
	// not note the claim's UID are told by its name alone. It returns what was given back.
	CollectOrphans(ctx context.Context, claimed func(name, uid string) bool) ([]string, error)
}

// ErrNotFound reports that the machine does not exist (any more).
var ErrNotFound = errors.New("machine not found")

// ErrForeign reports a provider ID that the cloud issues to no machine. It is an
// ErrNotFound: there is nothing to look for, and nothing to give back.
var ErrForeign = fmt.Errorf("the provider ID is of another cloud: %w", ErrNotFound)

// Recognizer is a Provider that tells its cloud's provider IDs from others'.
type Recognizer interface {
	// Recognizes reports whether the cloud may have issued a provider ID. It answers from
	// the ID alone; calls with any other ID end in ErrForeign.
	Recognizes(providerID string) bool
}

// Snapshot is a catalog at a point in time. It is never changed.
type Snapshot struct {
	// Types stays the very same slice from one snapshot to the next as long as the
	// types hold the same, so that whoever compiles them can tell by its first element.
	Types []offering.InstanceType
	// Budgets is what is left of each quota that offers draw on, by budget name. A
	// budget that is not listed is not limited.
	QuotaLeft map[string]int64
	// Pressure is how fast budgets run out, by budget name; those that do not shrink, or
	// of which that is not known, are not listed. It decides nothing.
	QuotaPressure map[string]Exhaustion
	// Taken is when the data was read from the cloud; its oldest part counts.
	Taken time.Time
	// Listed is when Types were last read to their end, whatever is missing besides; zero
	// while that fails.
	Listed time.Time
	// Unread are the types that the cloud lists and that could not be read, sorted: they are not
	// among Types, and have not gone. An empty name may be any type's.
	Unread []string
	// Problem says what could not be refreshed since, in words; empty when all is fresh.
	Problem string
}

// Exhaustion is a budget that shrinks.
type Exhaustion struct {
	Left int64
	// In is how long what is left lasts if it goes on like this.
	In time.Duration
}

// Claim is the part of a NodeClaim a provider needs.
type Claim struct {
	Name, UID string
	Pool      string // NodePool; empty for stand-alone claims
	Class     string // node class
	// Choices are the acceptable offers, cheapest first.
	Offerings []offering.Ref
	// Labels and taints the node must register with. StartupTaints too are set at birth.
	Labels                map[string]string
	Taints, StartupTaints []Taint
	// Requests decides nothing here; it is recorded with the machine.
	Requests quantity.Amounts
	// Memory holds what Instance.LaunchState asked to be remembered, among other annotations of
	// the claim under karve.dev/. Anybody who may write claims may have written it, and it
	// may be missing: losing it costs time and nothing else.
	LaunchState map[string]string
	// Urgent asks for this machine before others: pods lose theirs meanwhile.
	Urgent bool
}

// Taint is a node taint.
type Taint struct{ Key, Value, Effect string }

// State is where a machine is in its life.
type State string

const (
	Creating    State = "Creating"    // bought, not yet running
	Running     State = "Running"     // the cloud says it runs
	Stopped     State = "Stopped"     // exists, but deallocated: it will not come back by itself
	Failed      State = "Failed"      // never came up, or fell later
	Terminating State = "Terminating" // on its way out
)

// Lost reports whether a machine runs no pods and will not by itself.
func (s State) Lost() bool { return s == Stopped || s == Failed || s == Terminating }

// Instance is a machine.
type Instance struct {
	ProviderID   string
	Name         string // the cloud's name for it
	NodeName     string // name the node will register under
	ClaimName    string // NodeClaim it was bought for
	ClaimUID     string
	Pool         string
	State        State
	Type         string
	Zone         string
	CapacityType string
	Price        offering.Price
	ImageID      string
	// Labels are those the machine's type and offer give the node. Maps are not to be changed.
	Labels map[string]string
	// Annotations are what the claim shall remember of how its machine was made, for
	// Drifter to compare with how it would be made today.
	Annotations map[string]string
	// Memory is what the next Launch of the claim shall be told, by whatever process, as
	// annotations under karve.dev/ of 8 KiB at most together. It is stored before Launch
	// is called again; an empty value forgets. Once the claim is launched its keys are
	// forgotten.
	LaunchState           map[string]string
	Capacity, Allocatable quantity.Amounts
	Created               time.Time
	// RetryAfter is how long to wait before asking again while Creating.
	RetryAfter time.Duration
	// Attempts are the choices tried in this call and why each was refused.
	Attempts []Attempt
}

// Attempt is one refused purchase.
type Attempt struct {
	Offering offering.Ref
	Code     string // the cloud's error code
	Reason   string // our stable word: Quota, OutOfStock, Restricted, Throttled, Network, Other
	Detail   string
}

// CapacityError reports that none of a claim's choices can be bought for now.
type CapacityError struct {
	Claim    string
	Attempts []Attempt
	// Reason is as LaunchError's; empty where nothing was attempted.
	Reason string
}

func (e *CapacityError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no capacity for %s: %d choices refused", e.Claim, len(e.Attempts))
	for i, a := range e.Attempts {
		if i == 3 {
			fmt.Fprintf(&b, "; and %d more", len(e.Attempts)-i)
			break
		}
		fmt.Fprintf(&b, "; %s in %s (%s): %s", a.Offering.Type, a.Offering.Zone, a.Offering.CapacityType, a.Reason)
	}
	return b.String()
}

// LaunchError is a launch that failed for now, with a word for it that people may have
// alerts on: the one that Karpenter's provider for the same cloud writes into the condition
// Launched of a NodeClaim.
type LaunchError struct {
	Reason string
	Err    error
}

func (e *LaunchError) Error() string { return e.Err.Error() }
func (e *LaunchError) Unwrap() error { return e.Err }

// ClassNotFound is the reason of a NotReadyError when there is no such node class.
const ClassNotFound = "NodeClassNotFound"

// NotReadyError reports that the node class cannot be bought for yet.
type NotReadyError struct {
	Class, Reason, Detail string
	// Unsettled: it is still being found out.
	Unsettled bool
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("node class %s is not ready: %s: %s", e.Class, e.Reason, e.Detail)
}
