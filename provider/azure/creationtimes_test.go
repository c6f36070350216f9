// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
)

// A staleTransport reports virtual machines as still in creation, in lists and, if readsToo is set,
// in reads of one.
type staleTransport struct {
	inner    policy.Transporter
	state    string // instead of Creating
	readsToo bool
	noPower  bool // reads say nothing of power
}

var (
	finalState = regexp.MustCompile(`"provisioningState": ?"(Succeeded|Failed)"`)
	anyPower   = regexp.MustCompile(`"code": ?"PowerState/[a-z]+"`)
)

func (l *staleTransport) Do(req *http.Request) (*http.Response, error) {
	resp, err := l.inner.Do(req)
	list := strings.HasSuffix(req.URL.Path, "/virtualMachines")
	one := strings.Contains(req.URL.Path, "/virtualMachines/")
	if err != nil || req.Method != http.MethodGet || !list && !one {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if list || l.readsToo {
		body = finalState.ReplaceAll(body, []byte(`"provisioningState":"`+cmp.Or(l.state, "Creating")+`"`))
	}
	if l.noPower {
		body = anyPower.ReplaceAll(body, []byte(`"code":"Unknown"`))
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
	return resp, nil
}

// A virtual machine that takes far longer to be created than others is read: the result counts,
// and a failed read counts for nothing.
//
// Rule VM-1.
func TestLateVMsAreRead(t *testing.T) {
	const first, second = "Standard_D4s_v5", "Standard_E4s_v5"
	for name, tc := range map[string]struct {
		lag     staleTransport
		fails   bool // late, for lack of stock
		faults  int  // reads that fail first
		size    string
		atLeast time.Duration
	}{
		"the list lags":                  {lag: staleTransport{}, size: first, atLeast: 3 * time.Minute},
		"it runs before it is made":      {lag: staleTransport{readsToo: true}, size: first, atLeast: 3 * time.Minute},
		"it cannot be read at first":     {lag: staleTransport{readsToo: true}, faults: 20, size: first, atLeast: 4 * time.Minute},
		"its operation failed long ago":  {lag: staleTransport{readsToo: true, noPower: true}, fails: true, size: second, atLeast: 3 * time.Minute},
		"it failed and the list is late": {lag: staleTransport{}, fails: true, size: second, atLeast: 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
				if tc.fails {
					r.stockOut(t, onDemand(first, "eastus-1"), true)
				}
				options := *r.options.ClientOptions
				tc.lag.inner = options.Transport
				options.Transport = &tc.lag
				r.options.ClientOptions = &options
				if tc.faults > 0 {
					r.fault(t, azureemulator.Fault{Method: "GET", Path: vmPath, Status: 503, Times: tc.faults})
				}
				p, c := r.provider(t), claim("a", onDemand(first, "eastus-1"), onDemand(second, "eastus-1"))
				start := time.Now()
				for time.Since(start) < 20*time.Minute {
					in, err := p.Launch(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					if in.Type == second { // the staleTransport would have us wait for it as well
						break
					}
					if in.State == provider.Running {
						break
					}
					c.LaunchState = remembering(c.LaunchState, in.LaunchState)
					time.Sleep(in.RetryAfter)
				}
				if took := time.Since(start); took < tc.atLeast || took > tc.atLeast+3*time.Minute {
					t.Errorf("it took %v", took)
				}
				if vms := r.State().VMs; len(vms) != 1 || vms[0].Size != tc.size {
					t.Errorf("there are %+v", vms)
				}
				if n := r.Ledger().ByOperation["VirtualMachines.Get"]; n-tc.faults > 4 {
					t.Errorf("it was read %d times", n)
				}
			})
		})
	}
}

// A virtual machine whose creation was reported as failed and that runs all the same has not
// failed.
//
// Rule VM-1.
func TestReportedFailureIsNotBelievedOfARunningVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		options := *r.options.ClientOptions
		options.Transport = &staleTransport{inner: options.Transport, readsToo: true, state: "Failed"}
		r.options.ClientOptions = &options
		p := r.provider(t)
		c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))
		if _, err := r.up(t, p, c); err != nil {
			t.Fatal(err)
		}
		if again, err := r.provider(t).Launch(t.Context(), c); err != nil || again.State != provider.Running || again.Type != "Standard_D4s_v5" {
			t.Errorf("after a restart: %+v, %v", again, err)
		}
		if n := r.Ledger().ByOperation["VirtualMachines.Delete"]; n > 0 {
			t.Errorf("it was deleted %d times", n)
		}
		r.wantMachines(t, 1)
	})
}

// No virtual machine counts as deleted because an incomplete list lacks it.
//
// Rule COLLECT-2.
func TestShortListIsNoProofOfTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
		p := r.provider(t)
		id, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
		if err != nil {
			t.Fatal(err)
		}
		r.edited(func(string, string) string { return `{"value":[]}` })
		p = r.provider(t)
		for start := time.Now(); ; time.Sleep(2 * time.Second) {
			err := p.Terminate(t.Context(), id)
			if errors.Is(err, provider.ErrNotFound) {
				break
			}
			if err != nil || time.Since(start) > 5*time.Minute {
				t.Fatalf("after %v: %v", time.Since(start), err)
			}
		}
		if left := r.residue(t); len(left) > 0 {
			t.Errorf("called gone, and left behind: %v", left)
		}
	})
}

// When a virtual machine never comes up, its offering is blocked once its claim is given up.
//
// Rule VM-1.
func TestOfferingOfStuckVMIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small()
		options := *r.options.ClientOptions
		options.Transport = &staleTransport{inner: options.Transport, readsToo: true, noPower: true}
		r.options.ClientOptions = &options
		p := r.provider(t)
		choices := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))
		for start := time.Now(); time.Since(start) < 5*time.Minute; time.Sleep(2 * time.Second) {
			if in, err := p.Launch(t.Context(), choices); err != nil || in.State != provider.Creating {
				t.Fatalf("stuck: %+v, %v", in, err)
			}
		}
		for range 100 {
			err := p.TerminateByClaim(t.Context(), choices)
			if errors.Is(err, provider.ErrNotFound) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		again := choices
		again.Name, again.UID = "b", "uid-of-b"
		if in, err := p.Launch(t.Context(), again); err != nil || in.Type != "Standard_E4s_v5" {
			t.Errorf("launched %s, %v", in.Type, err)
		}
	})
}
