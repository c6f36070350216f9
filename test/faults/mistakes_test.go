// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// A mistake is what a provider might do wrong beside one of its requests.
type mistake func(t *run, req *http.Request, body []byte) error

// mistaken makes a mistake with every creation of a VM, unseen by the provider.
type mistaken struct {
	trial *run
	next  policy.Transporter
	make  mistake
}

// Do makes the mistake, and then what was asked for.
func (m mistaken) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPut || !strings.Contains(req.URL.Path, "/virtualMachines/") {
		return m.next.Do(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := m.make(m.trial, req, body); err != nil {
		return nil, err
	}
	again := req.Clone(req.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	return m.next.Do(again)
}

// launchTwice creates a second VM with the same tags under another name.
func launchTwice(t *run, req *http.Request, body []byte) error {
	name := path.Base(req.URL.Path)
	second := req.Clone(req.Context())
	second.URL.Path = strings.Replace(req.URL.Path, name, name+"0", 1)
	body = bytes.ReplaceAll(body, []byte(name), []byte(name+"0"))
	second.Body, second.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return answered(t.region.InProcess().Do(second))
}

func answered(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// loseInterface leaves one interface without the tag of an owner.
func loseInterface(t *run, req *http.Request, _ []byte) error {
	return t.others.putInterface(req.Context(), "lost", "")
}

// touch sends a request about something of others; through the tap or past it.
func touch(method, resource, body string, through func(*run) policy.Transporter) mistake {
	return func(t *run, req *http.Request, _ []byte) error {
		theirs := req.Clone(req.Context())
		theirs.Method, theirs.URL.Path = method, t.others.group()+resource
		theirs.Header.Del("If-None-Match")
		theirs.Body, theirs.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		return answered(through(t).Do(theirs))
	}
}

func past(t *run) policy.Transporter { return t.region.InProcess() }
func seen(t *run) policy.Transporter { return t.transport }

// Who looks for leaks, duplicates and things of others that were touched finds them: an
// oracle that cannot fail says nothing.
func TestOraclesFindMistakes(t *testing.T) {
	const jumpbox = "/providers/Microsoft.Compute/virtualMachines/jumpbox"
	duplicates := func(r Result) []string { return r.Duplicates }
	touched := func(r Result) []string { return r.OthersChanged }
	for name, test := range map[string]struct {
		mistake mistake
		found   func(Result) []string
	}{
		"two VMs for a claim":      {launchTwice, duplicates},
		"an interface is lost":     {loseInterface, func(r Result) []string { return r.Leaked }},
		"a VM of others ends":      {touch(http.MethodDelete, jumpbox, "", past), touched},
		"it has other tags":        {touch(http.MethodPatch, jumpbox, `{"tags": {"team": "b"}}`, past), touched},
		"it is stopped":            {touch(http.MethodPost, jumpbox+"/deallocate", "", past), touched},
		"a part of others ends":    {touch(http.MethodDelete, "/providers/Microsoft.Network/networkInterfaces/jumpbox-loose", "", past), touched},
		"a write comes to nothing": {touch(http.MethodDelete, "/providers/Microsoft.Network/networkInterfaces/jumpbox-nic", "", seen), touched},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := withMistake(t, test.mistake)
				if len(test.found(r)) == 0 || r.Err() == nil {
					t.Errorf("the mistake was not found: %v", r)
				}
			})
		})
	}
}

func withMistake(t *testing.T, m mistake) Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trial, err := newRun(ctx, Options{Seed: 1, VMs: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer trial.close(cancel)
	trial.transport.next = mistaken{trial, trial.transport.next, m}
	a, err := newInjector(trial, trial.options)
	if err != nil {
		t.Fatal(err)
	}
	r, err := trial.execute(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
