// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"regexp"
	"sync"
	"time"
)

// hindrance is what is wrong with a process: it is slow, or it dies at one of its next writes.
type hindrance struct {
	mu sync.Mutex
	// slow is how much longer each request takes.
	slow time.Duration
	// writes is how many writes, to Kubernetes or to Azure, it lives for; zero: for ever.
	writes int
	// after: the last write has its effect.
	after bool
	kill  func()
}

// killAtWrite has the process die at a write from now on: before it reaches anybody, or after its effect.
func (h *hindrance) killAtWrite(n int, after bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes, h.after = n, after
}

func (h *hindrance) setSlow(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slow = d
}

// begin is called before each request. It reports whether the process dies when the request is done.
func (h *hindrance) begin(writes bool) (last bool) {
	h.mu.Lock()
	slow, dies, after := h.slow, false, h.after
	if writes && h.writes > 0 {
		h.writes--
		dies = h.writes == 0
	}
	h.mu.Unlock()
	time.Sleep(slow)
	if dies && !after {
		h.kill()
	}
	return dies && after
}

// hinderedTransport carries the requests of a process to Kubernetes.
type hinderedTransport struct {
	next      http.RoundTripper
	hindrance *hindrance
}

// discoveryPath matches the paths that say which versions and kinds there are.
var discoveryPath = regexp.MustCompile(`^/(api(/v1)?|apis(/[^/]+(/[^/]+)?)?|version)/?$`)

// RoundTrip implements http.RoundTripper. What kinds there are is answered at once: controller-runtime asks
// under the lock of its cache, and the clock of a bubble stands still while a goroutine waits for a lock.
func (t *hinderedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if discoveryPath.MatchString(r.URL.Path) {
		return t.next.RoundTrip(r)
	}
	last := t.hindrance.begin(r.Method != http.MethodGet)
	answer, err := t.next.RoundTrip(r)
	if last {
		t.hindrance.kill()
	}
	return answer, err
}
