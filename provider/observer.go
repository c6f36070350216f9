package provider

import (
	"context"

	"github.com/karve-dev/karve/engine/offering"
)

// CapacityObserver is a Provider that learns from nodes what its machines really have, which is
// less than clouds advertise and is not told beforehand.
type CapacityObserver interface {
	// Observe is told of a node on a machine that the provider sold. It may be told the
	// same as often as one likes, and of what cannot be true, which it does not believe. An
	// error means that it cannot judge yet and wants to be told again.
	ObserveCapacity(context.Context, ObservedCapacity) error
}

// ObservedCapacity is what a node says of its machine.
type ObservedCapacity struct {
	Type string
	// Memory is all there is for the kubelet and pods together, in bytes.
	Memory int64
}

// EvictionObserver is a Provider that learns from which of its machines the cloud takes back.
type EvictionObserver interface {
	// Evicted is told of the offer of a machine whose eviction was announced. It answers
	// from memory, and may be told twice.
	EvictionAnnounced(offering.Ref)
}

// FailureObserver is a Provider that learns from which of its machines came up and were of no use.
type FailureObserver interface {
	// Useless is told of the offer of a machine whose node lacks what it was bought for, and
	// what that is. It answers from memory, and may be told twice.
	NodeUnusable(class string, c offering.Ref, lacks string)
}
