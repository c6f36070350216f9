// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// newVirtualRegion is a region without a socket, for use within a synctest bubble: an Azure at
// its own pace takes no time there.
func newVirtualRegion(t *testing.T, opts azureemulator.Options) *region {
	t.Helper()
	server, err := azureemulator.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	r := regionOf(t, server)
	r.options.CABundle = []byte(azureemulator.IdleAuthority)
	r.options.Patience, r.options.PollEvery = 0, 0 // as in production
	r.options.ARMPace = 0                          // as Azure
	return r
}

// Many nodes are launched and deleted in virtual time, at Azure's own pace and limits.
func TestVirtualTime(t *testing.T) {
	const n = 60
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1}).small()
		p := r.provider(t)
		if _, err := p.Catalog(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ids := make([]string, n)
		r.each(t, n, func(i int) (err error) {
			ids[i], err = r.up(t, p, claim(fmt.Sprint("web-", i), onDemand("Standard_D4s_v5", "eastus-1")))
			return err
		})
		if took := time.Since(start); took < 20*time.Second || took > 2*time.Minute {
			t.Errorf("%d VMs took %s of virtual time to run; Azure creates one in 25 s", n, took)
		}
		r.wantMachines(t, n)
		if got := r.Ledger().ByOperation["VirtualMachines.CreateOrUpdate"]; got != n {
			t.Errorf("%d writes for %d VMs", got, n)
		}
		start = time.Now()
		r.each(t, n, func(i int) error { return r.down(t, p, ids[i]) })
		if took := time.Since(start); took < 10*time.Second || took > 3*time.Minute {
			t.Errorf("%d VMs took %s of virtual time to go", n, took)
		}
		if left := r.residue(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func (r *region) each(t *testing.T, n int, act func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = act(i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// up launches until the virtual machine runs, waiting as long as Launch returns.
func (r *region) up(t *testing.T, p *azure.Provider, c provider.Claim) (id string, err error) {
	for range 1000 {
		in, err := p.Launch(t.Context(), c)
		if err != nil || in.State == provider.Running {
			return in.ProviderID, err
		}
		time.Sleep(in.RetryAfter)
	}
	return "", fmt.Errorf("claim %s does not run", c.Name)
}

func (r *region) down(t *testing.T, p *azure.Provider, id string) error {
	for range 1000 {
		err := p.Terminate(t.Context(), id)
		if errors.Is(err, provider.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Second)
	}
	return fmt.Errorf("%s does not go", id)
}
