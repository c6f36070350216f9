// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"

	"github.com/karve-dev/karve/engine/offering"
)

// CapacityObserver is a Provider that learns the real capacity of its instances from nodes. It is
// less than clouds advertise, and no API reports it beforehand.
type CapacityObserver interface {
	// ObserveCapacity reports a node on an instance of the provider. It may be called any number
	// of times with the same values, and with values that cannot be true, which the provider
	// ignores. An error means that it cannot judge yet and must be called again.
	ObserveCapacity(context.Context, ObservedCapacity) error
}

// ObservedCapacity is the capacity of an instance as its node reports it.
type ObservedCapacity struct {
	Type string
	// Memory is the total for the kubelet and pods together, in bytes.
	Memory int64
}

// SpotObserver is a Provider that learns which of its spot instances the cloud
// reclaims.
type SpotObserver interface {
	// SpotReclaimed reports the offering of a spot instance that the cloud reclaims, or reclaimed
	// unannounced. It makes no call to the cloud, and may be called twice for one instance.
	SpotReclaimed(offering.Ref)
}

// FailureObserver is a Provider that learns which of its instances started and were unusable.
type FailureObserver interface {
	// NodeUnusable reports the offering of an instance whose node lacks a resource that it was
	// launched for, and which. It makes no call to the cloud, and may be called twice for one
	// instance.
	NodeUnusable(class string, c offering.Ref, lacks string)
}
