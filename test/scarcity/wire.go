// SPDX-License-Identifier: Apache-2.0

package scarcity

import (
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// transport is the way to Azure. It takes its time, so that requests are under way together,
// and counts the launches that pass, by the name of the VM.
type transport struct {
	next policy.Transporter

	mu       sync.Mutex
	launches map[string]int
}

func newTransport(next policy.Transporter) *transport {
	return &transport{next: next, launches: map[string]int{}}
}

var vmPath = regexp.MustCompile(`(?i)/providers/Microsoft\.Compute/virtualMachines/([^/]+)$`)

// Do passes a request on.
func (w *transport) Do(req *http.Request) (*http.Response, error) {
	if err := Travel(req); err != nil {
		return nil, err
	}
	resp, err := w.next.Do(req)
	if name := vmPath.FindStringSubmatch(req.URL.Path); name != nil && req.Method == http.MethodPut && err == nil && resp.StatusCode != http.StatusTooManyRequests {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.launches[strings.ToLower(name[1])]++
	}
	return resp, err
}

// launchesOf is how often VMs were asked for whose names begin like that.
func (w *transport) launchesOf(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, launches := range w.launches {
		if strings.HasPrefix(name, prefix) {
			n += launches
		}
	}
	return n
}
