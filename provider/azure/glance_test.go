package azure_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/emulator"
)

// While one launch reads the list of machines, however long that takes, the others come back
// later.
//
// Rule 67.
func TestOneLaunchReadsTheListForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, emulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small()
		p := r.provider(t)
		claims := []provider.Claim{claim("a", onDemand("Standard_D4s_v5", "eastus-1")), claim("b", onDemand("Standard_D4s_v5", "eastus-1"))}
		for i, c := range claims {
			in, err := p.Launch(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			claims[i].Memory = in.Memory
		}
		time.Sleep(5 * time.Second)
		if err := r.Inject(emulator.Named{Name: "QuotaHangs", Target: "/virtualMachines$", Times: -1}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan error)
		go func() {
			_, err := p.Launch(ctx, claims[0])
			read <- err
		}()
		synctest.Wait()
		for range 10 {
			start := time.Now()
			in, err := p.Launch(t.Context(), claims[1])
			if took := time.Since(start); err != nil || took > 0 {
				t.Fatalf("it took %v while another read the list (%v)", took, err)
			}
			if in.State != provider.Creating || in.RetryAfter <= 0 || in.RetryAfter > 5*time.Second {
				t.Fatalf("%+v, want to come back soon", in)
			}
			time.Sleep(in.RetryAfter)
		}
		cancel()
		if err := <-read; !errors.Is(err, context.Canceled) {
			t.Errorf("the list ended with %v", err)
		}
		r.ClearFaults()
		for _, c := range claims {
			if _, err := r.up(t, p, c); err != nil {
				t.Error(err)
			}
		}
		r.wantMachines(t, 2)
	})
}
