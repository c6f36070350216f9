// SPDX-License-Identifier: Apache-2.0

package scarcity

import (
	"context"
	"net/http"
	"time"
)

// Sleep lets time pass, or less of it when ctx ends: that is the error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// How long a request is on its way.
const (
	readTakes  = 100 * time.Millisecond
	writeTakes = time.Second
)

// Travel takes the time that a request is on its way to Azure, so that requests are under
// way together. It ends early with the request's context, whose error it returns.
func Travel(req *http.Request) error {
	takes := readTakes
	if req.Method != http.MethodGet {
		takes = writeTakes
	}
	return Sleep(req.Context(), takes)
}
