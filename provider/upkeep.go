// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"time"
)

// UnreadableLister is a Provider that reports which entries of its cloud's lists it could not
// read.
type UnreadableLister interface {
	// Unreadable returns the entries of the last lists that were skipped. It makes no call to the
	// cloud.
	Unreadable() []Unreadable
}

// Unreadable is a malformed entry of a list. The other entries count all the same. The object
// that the entry describes counts as existing, and is not deleted.
type Unreadable struct {
	Kind string // what was listed, such as "virtual machines"
	Name string // empty when it cannot be read either
	// Claim is the NodeClaim that the object was created for, if that can be read.
	Claim string
	Why   string
}

// Drifter is a Provider that can determine whether an instance still equals the one that it would
// launch for the node class today.
type Drifter interface {
	// Drift returns how the instance differs; the zero Drift when it does not. It answers from
	// memory, since it is called for every instance every few minutes: it never calls the cloud
	// for each. An error means that the difference could not be determined, and nothing follows
	// from it.
	Drift(ctx context.Context, m LaunchedNode) (Drift, error)
}

// DriftNotifier is a Drifter that reports the instances for which the result of Drift may have
// changed.
type DriftNotifier interface {
	// DriftChanged returns the NodeClaims for which the result of Drift may have changed since
	// the last call of DriftChanged. It makes no call to the cloud, and must have one caller
	// only.
	DriftChanged() []string
}

// Drift is one difference.
type Drift struct {
	// Reason is one word, in the spelling of Karpenter's provider for the same cloud.
	Reason string
	// Detail describes the difference for users.
	Detail string
}

// LaunchedNode is a claim's instance as the cluster knows it. Unknown fields are empty.
type LaunchedNode struct {
	Claim, ProviderID string
	Class             string // node class
	Type              string // Instance.Type when it was launched
	ImageID           string // Instance.ImageID when it was launched
	// Annotations are the claim's, including those of Instance.Annotations.
	Annotations map[string]string
	// KubeletVersion and NodeLabels are the node's own.
	KubeletVersion string
	NodeLabels     map[string]string
}

// Updater is a Provider that can change some properties of instances without replacing them, such
// as their tags.
type Updater interface {
	// Update brings an instance up to date with its node class and with the provider's
	// configuration, one step per call. It may be called for every instance every few minutes:
	// one that is up to date costs no call to the cloud. The caller keeps no state between calls.
	Update(ctx context.Context, m LaunchedNode) (Update, error)
}

// Update is the result of one step of an update. The zero Update means that nothing was left to
// do.
type Update struct {
	// Changed describes what this call changed; empty when nothing.
	Changed string
	// RetryAfter is when to call again, because more must be changed or checked; zero when
	// nothing remains.
	RetryAfter time.Duration
}

// Repairer is a Provider that knows which conditions show that a node will not recover by itself.
type Repairer interface {
	RepairPolicies() []RepairPolicy
}

// RepairPolicy is a node condition and the status that is tolerated for at most Tolerate.
type RepairPolicy struct {
	Condition, Status string
	Tolerate          time.Duration
}
