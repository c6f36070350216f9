// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"net/http"
	"time"
)

// operation is one asynchronous operation as Azure-AsyncOperation and Location
// URLs show it. The clock's lock guards it.
type operation struct {
	id string
	// namespace is the provider that answers for it, as spelled in its URL.
	namespace      string
	status         string
	started, ended time.Time
	failure        *Error
	// pace is the Retry-After between two polls.
	pace time.Duration
}

// How an operation stands.
const (
	inProgress = "InProgress"
	succeeded  = "Succeeded"
	failed     = "Failed"
)

// operationsKept is how many finished operations can still be polled. The
// oldest go first: a client that polls at all polls sooner than that.
const operationsKept = 20000

// operations holds all that run and the latest that finished.
type operations struct {
	byID     map[string]*operation
	finished []string // oldest first
	sub      *subscription
	clock    *clock
	chance   *chance
}

func newOperations(sub *subscription, c *clock, ids *chance) *operations {
	return &operations{byID: map[string]*operation{}, sub: sub, clock: c, chance: ids}
}

func (o *operations) routes() []route {
	return []route{
		azure("GET", inSubscription+"/providers/microsoft.containerservice/locations/{location}/operations/{operation}", "ManagedClusters.GetOperation", pollAKS, o.get),
		azure("GET", inSubscription+"/providers/{namespace}/locations/{location}/operations/{operation}", "Operations.Get", pollOperation, o.get),
	}
}

func (o *operations) finish(op *operation, failure *Error) {
	if op == nil || op.status != inProgress {
		return
	}
	op.status, op.failure, op.ended = succeeded, failure, time.Now()
	if failure != nil {
		op.status = failed
	}
	o.finished = append(o.finished, op.id)
	if len(o.finished) > operationsKept {
		delete(o.byID, o.finished[0])
		o.finished = o.finished[1:]
	}
}

// begin starts an operation; pace is the real Azure's polling interval.
func (o *operations) begin(namespace string, pace time.Duration) *operation {
	op := &operation{id: o.chance.uuid(), namespace: namespace, status: inProgress, started: time.Now(), pace: o.clock.scaled(pace)}
	o.byID[op.id] = op
	return op
}

// run starts an operation that ends after a latency, when end is called.
func (o *operations) run(namespace string, pace time.Duration, latency Distribution, end func()) *operation {
	op := o.begin(namespace, pace)
	o.clock.later(latency, func() {
		end()
		o.finish(op, nil)
	})
	return op
}

// announce adds the headers that make a client poll.
func (o *operations) announce(op *operation, header http.Header) {
	url := fmt.Sprintf("%s/subscriptions/%s/providers/%s/locations/%s/operations/%s?p=%s&api-version=%s&t=638000000000000000&c=certificate&s=%s&h=hash",
		o.sub.url, o.sub.id, op.namespace, o.sub.location, op.id, op.id, operationsVersion, OperationSignature)
	header.Set("Azure-AsyncOperation", url)
	header.Set("Location", url+"&monitor=true")
	setRetryAfter(header, op.pace)
}

// OperationSignature signs the URLs of operations, as Azure does with the parameters t, c, s and h. It must
// not be found in anything that a client records.
const OperationSignature = "emulated-signature-of-an-operation"

const operationsVersion = "2025-04-01"

// setRetryAfter names a delay. The real service sends whole seconds only; the
// second header lets an emulator that runs faster than Azure be polled as often.
func setRetryAfter(header http.Header, d time.Duration) {
	seconds := int((d + time.Second - 1) / time.Second)
	header.Set("Retry-After", fmt.Sprint(max(seconds, 1)))
	if d%time.Second != 0 || seconds == 0 {
		header.Set("Retry-After-Ms", fmt.Sprint(max(d.Milliseconds(), 10)))
	}
}

func (o *operations) get(r *request) (reply, error) {
	o.clock.Lock()
	defer o.clock.Unlock()
	op, ok := o.byID[r.params["operation"]]
	if !ok {
		return reply{}, notFound("OperationNotFound", "The operation '%s' was not found: it never began here, or it finished long ago.", r.params["operation"])
	}
	if r.query.Get("monitor") == "true" {
		return o.monitor(op)
	}
	header := http.Header{}
	if op.status == inProgress {
		setRetryAfter(header, op.pace)
	}
	return reply{status: http.StatusOK, header: header, body: op.view()}, nil
}

// monitor is the operation behind its Location header: 202 until it is over.
func (o *operations) monitor(op *operation) (reply, error) {
	if op.failure != nil {
		return reply{}, op.failure
	}
	if op.status == succeeded {
		return reply{status: http.StatusOK}, nil
	}
	header := http.Header{}
	o.announce(op, header)
	return reply{status: http.StatusAccepted, header: header}, nil
}

func (op *operation) view() map[string]any {
	view := map[string]any{"name": op.id, "status": op.status, "startTime": stamp(op.started)}
	if !op.ended.IsZero() {
		view["endTime"] = stamp(op.ended)
	}
	if op.failure != nil {
		view["error"] = op.failure.detail()
	}
	return view
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.0000000Z") }

// accepted is the reply to a DELETE or POST that goes on as op.
func (o *operations) accepted(op *operation) (reply, error) {
	header := http.Header{}
	o.announce(op, header)
	return reply{status: http.StatusAccepted, header: header}, nil
}
