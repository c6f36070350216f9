// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// writeCheck is a policy that asks mayWrite before each request that changes something; see
// Options.MayWrite. It comes last, since policies before it wait.
type writeCheck struct {
	mayWrite func(context.Context) error
}

func (c writeCheck) Do(r *policy.Request) (*http.Response, error) {
	if c.mayWrite != nil && changes(r.Raw()) {
		if err := c.mayWrite(r.Raw().Context()); err != nil {
			return nil, err
		}
	}
	return r.Next()
}

// changes reports whether the request changes something in Azure. Of those with POST most are
// queries.
func changes(r *http.Request) bool {
	switch r.Method {
	case http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	case http.MethodPost:
		return strings.EqualFold(path.Base(r.URL.Path), "deleteMachines")
	}
	return false
}
