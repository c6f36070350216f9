// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/agent"
	"github.com/karve-dev/karve/internal/panics"
)

// exploding panics with the first request.
type exploding struct {
	asked int
	inner http.RoundTripper
}

func (e *exploding) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.asked++; e.asked == 1 {
		panic("boom")
	}
	return e.inner.RoundTrip(r)
}

// An agent that panics continues a second later.
//
// Rule PANIC-1.
func TestAgentGoesOnAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, told := newMetadataService(t), 0
		transport := &exploding{inner: m}
		m.Metadata = agent.Metadata{Endpoint: agent.Endpoint, HTTP: &http.Client{Transport: transport}}
		m.Panics = &panics.Reporter{Log: func(*panics.Panic) { told++ }}
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		m.Run(ctx)
		if told != 1 || m.asked == 0 {
			t.Errorf("told %d times, asked %d times after that", told, m.asked)
		}
	})
}
