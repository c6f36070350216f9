// SPDX-License-Identifier: Apache-2.0

package aksmachine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// ErrorsOf returns the result for each machine of a batch.
func ErrorsOf(err error, names []string) []error {
	errs := make([]error, len(names))
	perMachine, rest := errorsByName(err)
	rest = armerr.Shareable(rest)
	for i, name := range names {
		errs[i] = rest
		if e := perMachine[strings.ToLower(name)]; e != nil {
			errs[i] = e
		}
	}
	return errs
}

// errorsByName returns the errors that AKS reports for single machines of a batch, and the error
// for all others: nil (they were accepted) after a client error about some, and an error (their
// state is unknown) when AKS failed.
func errorsByName(err error) (perMachine map[string]error, rest error) {
	code, details := detailsOf(err)
	switch code {
	case "BatchMachineClientError":
		rest = nil
	case "BatchMachineInternalServerError":
		rest = fmt.Errorf("AKS failed in the middle of a batch: %w", err)
	default:
		return nil, err
	}
	if len(details) == 0 {
		return nil, err
	}
	perMachine = map[string]error{}
	for _, d := range details {
		perMachine[strings.ToLower(d.Target)] = armerr.OfResource(cmp.Or(d.Code, code), d.Message)
	}
	return perMachine, rest
}

// A batchDetail is AKS's error for one machine of a batch.
type batchDetail struct{ Code, Message, Target string }

// detailsOf returns the details of an error. AKS puts them beside the message after a client
// error, and as JSON into the message after an error of its own.
func detailsOf(err error) (code string, details []batchDetail) {
	resp := armerr.ResponseOf(err)
	if resp == nil || resp.RawResponse == nil {
		return "", nil
	}
	raw, failed := runtime.Payload(resp.RawResponse)
	var body struct {
		Details []batchDetail
		Error   struct{ Details []batchDetail }
	}
	if failed != nil || json.Unmarshal(raw, &body) != nil {
		return resp.ErrorCode, nil
	}
	details = append(body.Error.Details, body.Details...)
	if len(details) == 0 {
		_ = json.Unmarshal([]byte(armerr.Message(resp)), &details) // not JSON: there are no details
	}
	return resp.ErrorCode, details
}
