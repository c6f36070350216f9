// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/internal/token"
	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// unreachable is a transport that fails as that of net/http does: its error has the whole URL.
type unreachable struct{ answer *http.Response }

func (u unreachable) Do(r *http.Request) (*http.Response, error) {
	if u.answer != nil {
		u.answer.Request = r
		return u.answer, nil
	}
	return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("connection refused")}
}

// Neither an error of the network nor one of Azure has the parameters of the URL, which may be signed.
//
// Rule VM-9.
func TestErrorsLeaveOutTheParametersOfURLs(t *testing.T) {
	const signature = "do-not-log-me"
	for name, wire := range map[string]unreachable{
		"network": {},
		"Azure": {&http.Response{StatusCode: http.StatusForbidden, Header: http.Header{},
			Body: http.NoBody}},
	} {
		options := limited(&arm.ClientOptions{ClientOptions: policy.ClientOptions{Transport: wire, Retry: policy.RetryOptions{MaxRetries: -1}}},
			ratelimit.New(ratelimit.Options{}), &token.Renewal{}, nil)
		pipeline := runtime.NewPipeline("test", "v1", runtime.PipelineOptions{}, &options.ClientOptions)
		request, err := runtime.NewRequest(t.Context(), http.MethodGet,
			"https://management.azure.com/subscriptions/s/providers/Microsoft.Compute/locations/l/operations/o?api-version=1&s="+signature)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := pipeline.Do(request)
		if err == nil {
			err = runtime.NewResponseError(resp)
		}
		if text := err.Error(); strings.Contains(text, signature) || !strings.Contains(text, "/operations/o") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
