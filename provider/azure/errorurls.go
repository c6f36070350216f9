// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// errorsWithoutQueries is a policy that removes the parameters from the URLs in errors of the network.
// Such errors go to logs, events and conditions, and the URLs of operations are signed. It comes last.
type errorsWithoutQueries struct{}

func (errorsWithoutQueries) Do(r *policy.Request) (*http.Response, error) {
	resp, err := r.Next()
	if failed := new(url.Error); errors.As(err, &failed) {
		failed.URL, _, _ = strings.Cut(failed.URL, "?")
	}
	return resp, err
}
