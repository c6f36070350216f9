// SPDX-License-Identifier: Apache-2.0

package provider

import "time"

// RequestStats is a Provider that counts its requests to a cloud that limits them.
type RequestStats interface {
	// Requests counts the requests since the process started. It makes no call to the cloud.
	Requests() Requests
}

// Requests is the use of the cloud's rate limits.
type Requests struct {
	// Counts are the requests by kind, in a stable order.
	Counts []RequestCount
	// Waits are the requests that waited for a free rate limit, by class.
	Waits []RequestWait
	// Left is how many requests of a class may be sent right now.
	Left map[string]float64
	// Machines is how many instances were launched with these requests.
	Machines uint64
}

// RequestCount counts requests of one kind.
type RequestCount struct {
	Class  string // of the most specific limit that applies
	Method string // HTTP method
	// Outcome is ok, refused (the request was wrong), throttled (sent too often), failed (the
	// cloud failed), lost (no answer), or held (not sent).
	Outcome string
	N       uint64
}

// RequestWait sums up how long requests of a class waited; requests that were sent at once are
// not counted.
type RequestWait struct {
	Class string
	N     uint64
	Total time.Duration
}
