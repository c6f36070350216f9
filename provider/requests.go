// SPDX-License-Identifier: Apache-2.0

package provider

import "time"

// RequestReporter is a Provider that counts its requests to a cloud that limits them.
type RequestReporter interface {
	// RequestStats counts the requests since the process started. It makes no call to the cloud.
	RequestStats() RequestStats
}

// RequestStats is the use of the cloud's rate limits.
type RequestStats struct {
	// Counts are the requests by kind, in a stable order.
	Counts []RequestCount
	// Waits are the requests that waited for a free rate limit, by its class.
	Waits []RequestWait
	// Left is how many requests of a class of limits may be sent right now.
	Left map[string]float64
	// VMsCreated counts the VMs whose creation the cloud's own VM API accepted; those that a
	// managed Kubernetes service such as AKS creates are not counted.
	VMsCreated uint64
}

// RequestCount counts requests of one kind.
type RequestCount struct {
	LimitClass string // of the most specific limit that applies
	Method     string // HTTP method
	// Outcome is ok, refused (the request was wrong), throttled (sent too often), failed (the
	// cloud failed), lost (no answer), or held (not sent).
	Outcome string
	N       uint64
}

// RequestWait sums up how long requests of one class of limits waited; requests that were sent at
// once are not counted.
type RequestWait struct {
	LimitClass string
	N          uint64
	Total      time.Duration
}
