// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/internal/token"
	"github.com/karve-dev/karve/provider/azure/ratelimit"
)

// reached is a transport that counts requests and answers each with 200.
type reached struct{ requests int }

func (r *reached) Do(req *http.Request) (*http.Response, error) {
	r.requests++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// A process that may not write any more sends no request that changes something in Azure, and goes
// on reading.
//
// Rule LEADER-1.
func TestProcessThatMayNotWriteOnlyReads(t *testing.T) {
	refused := errors.New("another process leads")
	const group = "https://management.azure.com/subscriptions/s/resourceGroups/g/providers/"
	for _, tc := range []struct {
		method, path string
		changes      bool
	}{
		{http.MethodGet, "Microsoft.Compute/virtualMachines/a", false},
		{http.MethodPut, "Microsoft.Compute/virtualMachines/a", true},
		{http.MethodPatch, "Microsoft.Compute/virtualMachines/a", true},
		{http.MethodDelete, "Microsoft.Network/networkInterfaces/a", true},
		{http.MethodPost, "Microsoft.ResourceGraph/resources", false},
		{http.MethodPost, "Microsoft.ContainerService/managedClusters/c/agentPools/p/deleteMachines", true},
	} {
		for _, may := range []bool{true, false} {
			wire := &reached{}
			options := limited(&arm.ClientOptions{ClientOptions: policy.ClientOptions{Transport: wire}}, ratelimit.New(ratelimit.Options{}), &token.Renewal{},
				func(context.Context) error {
					if may {
						return nil
					}
					return refused
				})
			pipeline := runtime.NewPipeline("test", "v1", runtime.PipelineOptions{}, &options.ClientOptions)
			request, err := runtime.NewRequest(t.Context(), tc.method, group+tc.path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = pipeline.Do(request)
			if want := may || !tc.changes; (err == nil) != want || (wire.requests == 1) != want {
				t.Errorf("%s %s, may write: %v: error %v, %d requests", tc.method, tc.path, may, err, wire.requests)
			}
		}
	}
}
