package provider

import "time"

// RequestStats is a Provider that counts its requests to a cloud that limits them.
type RequestStats interface {
	// Requests is what was asked of the cloud since the process started. It answers
	// from memory.
	Requests() Requests
}

// Requests says how a cloud's limits on requests are used.
type Requests struct {
	// Counts are the requests by kind, in a stable order.
	Counts []RequestCount
	// Waits are the requests that had to wait for their turn, by class.
	Waits []RequestWait
	// Left is how many requests of a class may be made right now.
	Left map[string]float64
	// Machines is how many machines were bought with these requests.
	Machines uint64
}

// RequestCount counts requests that are alike.
type RequestCount struct {
	Class  string // of the limit that is most particular to them
	Method string // of HTTP
	// Outcome is ok, refused (the request was wrong), throttled (it came too often),
	// failed (the cloud was), lost (there was no answer), or held: it was not sent.
	Outcome string
	N       uint64
}

// RequestWait sums up how long requests of a class waited; those that went at
// once are not counted.
type RequestWait struct {
	Class string
	N     uint64
	Total time.Duration
}
