package provider

import (
	"context"
	"time"
)

// UnreadableLister is a Provider that says what of its cloud's lists it could not read.
type UnreadableLister interface {
	// Unreadable are the rows of the last lists that were passed over. It answers from
	// memory.
	Unreadable() []Unreadable
}

// Unreadable is a row of a list that makes no sense. It hides nothing else: what it is
// about is neither gone nor to be given back.
type Unreadable struct {
	Kind string // what was listed, such as "virtual machines"
	Name string // empty when that cannot be read either
	// Claim is the NodeClaim it was made for, if that can be read.
	Claim string
	Why   string
}

// Drifter is a Provider that can tell whether a machine is still what would be
// bought for its node class today.
type Drifter interface {
	// Drift says in what the machine differs; the zero Drift when in nothing. It
	// answers from memory, since it is asked about every machine every few minutes:
	// never with a call to the cloud for each. An error means that it could not be
	// found out, and nothing follows from that.
	Drift(ctx context.Context, m LaunchedNode) (Drift, error)
}

// DriftNotifier is a Drifter that notices when what it says of a machine may have changed.
type DriftNotifier interface {
	// Stirred are the NodeClaims about whose machines Drift may say something else since Stirred
	// was called last. It answers from memory, and has one caller.
	DriftChanged() []string
}

// Drift is one difference.
type Drift struct {
	// Reason is one word, spelled as Karpenter's provider for the same cloud spells it.
	Reason string
	// Detail is for people.
	Detail string
}

// LaunchedNode is a claim's machine as the cluster knows it. What is not known is empty.
type LaunchedNode struct {
	Claim, ProviderID string
	Class             string // node class
	Type              string // as Instance.Type said when it was launched
	ImageID           string // as Instance.ImageID said when it was launched
	// Annotations are the claim's, those of Instance.Annotations among them.
	Annotations map[string]string
	// KubeletVersion and NodeLabels are what the node says.
	KubeletVersion string
	NodeLabels     map[string]string
}

// Updater is a Provider that can change some of what machines are without replacing
// them, such as their tags.
type Updater interface {
	// Update brings a machine up to date with its node class and with how the provider is
	// configured, one step per call. It may be asked about every machine every few minutes:
	// one that is up to date costs no call to the cloud. Nothing has to be remembered
	// between calls.
	Update(ctx context.Context, m LaunchedNode) (Update, error)
}

// Update is how a machine stands. The zero Update is one with nothing to be done.
type Update struct {
	// Changed says what was changed just now, in words; empty when nothing was.
	Changed string
	// RetryAfter is when to call again, because something is left to be done or to be
	// seen; zero when nothing is.
	RetryAfter time.Duration
}

// Repairer is a Provider that knows by which conditions a node shows that it will
// not get well by itself.
type Repairer interface {
	RepairPolicies() []RepairPolicy
}

// RepairPolicy is a node condition in a status that is not borne for longer than Tolerate.
type RepairPolicy struct {
	Condition, Status string
	Tolerate          time.Duration
}
