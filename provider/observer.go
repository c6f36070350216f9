package provider

import (
	"context"

	"github.com/karve-dev/karve/engine/offer"
)

// Observer is a Provider that learns from nodes what its machines really have, which is
// less than clouds advertise and is not told beforehand.
type Observer interface {
	// Observe is told of a node on a machine that the provider sold. It may be told the
	// same as often as one likes, and of what cannot be true, which it does not believe. An
	// error means that it cannot judge yet and wants to be told again.
	Observe(context.Context, Seen) error
}

// Seen is what a node says of its machine.
type Seen struct {
	Type string
	// Memory is all there is for the kubelet and pods together, in bytes.
	Memory int64
}

// Forewarned is a Provider that learns from which of its machines the cloud takes back.
type Forewarned interface {
	// Evicted is told of the offer of a machine whose eviction was announced. It answers
	// from memory, and may be told twice.
	Evicted(offer.Choice)
}

// Blamed is a Provider that learns from which of its machines came up and were of no use.
type Blamed interface {
	// Useless is told of the offer of a machine whose node lacks what it was bought for, and
	// what that is. It answers from memory, and may be told twice.
	Useless(class string, c offer.Choice, lacks string)
}
