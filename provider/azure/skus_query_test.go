// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/azureemulator"
)

// queries counts the lists of sizes, and those whose query has a plus for a space.
type queries struct {
	inner       policy.Transporter
	all, pluses *atomic.Int64
}

func (q queries) Do(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/Microsoft.Compute/skus") {
		q.all.Add(1)
		if strings.Contains(req.URL.RawQuery, "+") {
			q.pluses.Add(1)
		}
	}
	return q.inner.Do(req)
}

// The query for Resource Manager has the SDK's own spelling: not every service takes a plus for
// a space, and a misread filter lists the sizes of all regions, or none.
func TestFilterIsSpelledAsTheSDKDoes(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	var all, pluses atomic.Int64
	options := *r.options.ClientOptions
	options.Transport = queries{options.Transport, &all, &pluses}
	r.options.ClientOptions = &options
	snapshot(t, r.provider(t))
	if all.Load() == 0 || pluses.Load() > 0 {
		t.Errorf("of %d lists of sizes %d have a plus in their query", all.Load(), pluses.Load())
	}
}
