// SPDX-License-Identifier: Apache-2.0

package scarcity

import (
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// wire is the way to Azure. It takes its time, so that requests are under way together,
// and counts the launches that pass, by the name of the VM.
type wire struct {
	next policy.Transporter

	mu        sync.Mutex
	purchases map[string]int
}

func tap(next policy.Transporter) *wire { return &wire{next: next, purchases: map[string]int{}} }

var machinePath = regexp.MustCompile(`(?i)/providers/Microsoft\.Compute/virtualMachines/([^/]+)$`)

// Do passes a request on.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	if err := Travel(req); err != nil {
		return nil, err
	}
	resp, err := w.next.Do(req)
	if name := machinePath.FindStringSubmatch(req.URL.Path); name != nil && req.Method == http.MethodPut && err == nil && resp.StatusCode != http.StatusTooManyRequests {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.purchases[strings.ToLower(name[1])]++
	}
	return resp, err
}

// of is how often machines were asked for whose names begin like that.
func (w *wire) of(prefix string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, purchases := range w.purchases {
		if strings.HasPrefix(name, prefix) {
			n += purchases
		}
	}
	return n
}
