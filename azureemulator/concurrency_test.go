// SPDX-License-Identifier: Apache-2.0

package azureemulator_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	"golang.org/x/sync/errgroup"

	"github.com/karve-dev/karve/azureemulator"
)

// A hundred VMs are created and deleted at once, in too small a subnet and
// quota, with stock-outs and evictions. Every answer must be a VM or one
// of the refusals asked for, and in the end nothing may be left.
func TestManyAtOnce(t *testing.T) {
	const seed = 42
	g := newGuest()
	a := start(t, azureemulator.Options{
		SystemNodes: -1, Seed: seed, TimeScale: 0.001, Guest: g, SubnetPrefix: "10.0.0.0/25",
		Quota: map[string]int{"standardDSv5Family": 120}, LowPriorityCores: 60,
	})
	if err := a.Capacity.AddStockout(azureemulator.Stockout{Zone: "3", Left: 10}); err != nil {
		t.Fatal(err)
	}
	var work errgroup.Group
	for i := range 100 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		work.Go(func() error { return a.liveOnce(fmt.Sprintf("vm-%d", i), random) })
	}
	if err := work.Wait(); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if err := a.CheckInvariants(); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	eventually(t, "evicted VMs to go", func() bool { return len(a.State().VMs) == 0 })
	if left := a.State(); len(left.NICs)+len(left.Disks)+len(left.Usages) != 0 {
		t.Errorf("seed %d left %+v", seed, left)
	}
	// Whether any of them lived long enough to boot is a matter of luck; one that is left alone
	// does.
	if _, err := a.create("after", a.vmBody("Standard_D2s_v5", "1")); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	for m := range g.booted {
		if m.Name == "after" {
			break
		}
	}
}

// liveOnce creates a VM, perhaps has it evicted, and deletes what there is.
func (a *azure) liveOnce(name string, random *rand.Rand) error {
	zone := fmt.Sprint(1 + random.IntN(3))
	vm := a.vmBody("Standard_D2s_v5", zone)
	isSpot := random.IntN(2) == 0
	if isSpot {
		vm = a.spot("Standard_D2s_v5", zone, armcompute.VirtualMachineEvictionPolicyTypesDelete)
	}
	if _, err := a.create(name, vm); err != nil && !expected(err) {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	if isSpot && random.IntN(3) == 0 {
		// It may be gone, failed or never have been: then there is nothing to evict.
		_ = a.VMs.Evict(name, -1)
	}
	if err := a.remove(name); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

func expected(err error) bool {
	for _, code := range []string{"OperationNotAllowed", "SubnetIsFull", "ZonalAllocationFailed"} {
		if isCode(err, code) {
			return true
		}
	}
	return false
}

// Two clients that want the last core, address and interface cannot both have it.
func TestLastOneGoesToOne(t *testing.T) {
	a := start(t, azureemulator.Options{SystemNodes: -1, Quota: map[string]int{"standardDSv5Family": 2}})
	nic, err := a.makeNIC("nic", 1)
	if err != nil {
		t.Fatal(err)
	}
	won := make(chan string, 20)
	var work errgroup.Group
	for i := range 20 {
		work.Go(func() error {
			name := fmt.Sprintf("vm-%d", i)
			_, err := a.create(name, separate(a.vmBody("Standard_D2s_v5", "1"), *nic.ID, armcompute.DeleteOptionsDelete))
			switch {
			case err == nil:
				won <- name
				return nil
			case isCode(err, "NicInUse"), isCode(err, "OperationNotAllowed"):
				return nil
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(won) != 1 || len(a.State().VMs) != 1 {
		t.Errorf("%d VMs share the last core and interface", len(won))
	}
	_, err = a.vms.Get(t.Context(), a.group, <-won, nil)
	if err != nil {
		wantCode(t, err, http.StatusNotFound, "ResourceNotFound")
		t.Errorf("the winner's VM is gone")
	}
}
