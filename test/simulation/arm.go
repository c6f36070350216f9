// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// How long requests to Azure take.
const (
	readTakes  = 100 * time.Millisecond
	writeTakes = time.Second
)

// armTransport carries the requests of one process to Azure.
type armTransport struct {
	next policy.Transporter
	dead atomic.Bool
	// seen is told of each request that reached Azure.
	seen func(r *http.Request, status int)

	hindrance *hindrance
}

var errDead = errors.New("the process was killed")

func (t *armTransport) kill() { t.dead.Store(true) }

// Do passes a request on.
func (t *armTransport) Do(r *http.Request) (*http.Response, error) {
	takes := readTakes
	if r.Method != http.MethodGet {
		takes = writeTakes
	}
	last := t.hindrance.begin(r.Method != http.MethodGet)
	time.Sleep(takes / 2)
	if t.dead.Load() {
		return nil, errDead
	}
	answer, err := t.next.Do(r)
	if last {
		t.hindrance.kill()
	}
	status := 0
	if err == nil {
		status = answer.StatusCode
	}
	t.seen(r, status)
	time.Sleep(takes / 2)
	if t.dead.Load() {
		return nil, errDead
	}
	return answer, err
}
