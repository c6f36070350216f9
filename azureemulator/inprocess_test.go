// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/azureemulator"
)

// bootGuest tells when VMs boot and why they end.
type bootGuest struct {
	booted chan time.Time
	ended  chan error
}

func (g bootGuest) Run(ctx context.Context, _ azureemulator.VM) {
	g.booted <- time.Now()
	<-ctx.Done()
	g.ended <- context.Cause(ctx)
}

// Without a listener everything happens in the caller's bubble, in its time.
func TestWithoutAListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guest := bootGuest{booted: make(chan time.Time, 1), ended: make(chan error, 1)}
		s, err := azureemulator.New(t.Context(), azureemulator.Options{SystemNodes: -1, TimeScale: 1, Guest: guest})
		if err != nil {
			t.Fatal(err)
		}
		a := &azure{Server: s, t: t, group: s.NodeResourceGroup()}
		credential, err := s.Credential()
		if err != nil {
			t.Fatal(err)
		}
		compute, err := armcompute.NewClientFactory(s.SubscriptionID(), credential, s.ClientOptions())
		if err != nil {
			t.Fatal(err)
		}
		vms := compute.NewVirtualMachinesClient()
		start := time.Now()
		poller, err := vms.BeginCreateOrUpdate(t.Context(), a.group, "one", a.vmBody("Standard_D4s_v5", "1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := poller.PollUntilDone(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 10*time.Second {
			t.Errorf("created after %s", took)
		}
		if took := (<-guest.booted).Sub(start); took < 20*time.Second || took > 5*time.Minute {
			t.Errorf("booted after %s", took)
		}
		s.RevokeTokens() // the SDK answers the claims challenge here too
		if _, err := vms.BeginDelete(t.Context(), a.group, "one", &armcompute.VirtualMachinesClientBeginDeleteOptions{ForceDeletion: to.Ptr(true)}); err != nil {
			t.Fatal(err)
		}
		if cause := <-guest.ended; !errors.Is(cause, azureemulator.ErrDeleted) {
			t.Errorf("the guest ended by %v", cause)
		}
		if err := errors.Join(s.CheckInvariants(), s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestInProcessClient(t *testing.T) {
	s, err := azureemulator.New(t.Context(), azureemulator.Options{SystemNodes: -1})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Get(s.URL() + "/_emulator/ledger")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || int64(len(body)) != resp.ContentLength {
		t.Errorf("%s, %d of %d bytes, %v", resp.Status, len(body), resp.ContentLength, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/_emulator/ledger", nil)
	if _, err := s.InProcess().Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: %v", err)
	}
	if s.CACertPEM() != nil {
		t.Error("there is a certificate and nobody who shows it")
	}
}
