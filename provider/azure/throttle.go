package azure

import (
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// polite returns the client options with retries that never hold a caller for
// long. A Retry-After beyond MaxRetryDelay is handed to us instead of being
// waited for, and a launch then says when to come back.
func polite(in *arm.ClientOptions) *arm.ClientOptions {
	out := arm.ClientOptions{}
	if in != nil {
		out = *in
	}
	r := &out.Retry
	if r.MaxRetries == 0 && r.RetryDelay == 0 && r.MaxRetryDelay == 0 && r.TryTimeout == 0 && r.ShouldRetry == nil {
		*r = policy.RetryOptions{MaxRetries: 3, RetryDelay: 500 * time.Millisecond, MaxRetryDelay: 5 * time.Second, TryTimeout: time.Minute}
	}
	if out.Telemetry.ApplicationID == "" {
		out.Telemetry.ApplicationID = "karve"
	}
	return &out
}

// retryAfter reads the header in its three spellings; zero when there is none.
func retryAfter(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.Atoi(h.Get(name)); err == nil && ms > 0 {
			return time.Duration(ms) * time.Millisecond
		}
	}
	raw := h.Get("Retry-After")
	if s, err := strconv.Atoi(raw); err == nil && s > 0 {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(raw); err == nil {
		if sent, err := http.ParseTime(h.Get("Date")); err == nil && at.After(sent) {
			return at.Sub(sent)
		}
	}
	return 0
}
