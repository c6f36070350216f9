// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// A virtual machine that fails after it was reported as created is reported as failed, and once
// it is deleted its offering is blocked for a while.
//
// Rule VM-5.
func TestVMThatFailsAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
		if err := r.Inject(azureemulator.NamedFault{Name: "LateFailure"}); err != nil {
			t.Fatal(err)
		}
		p := r.provider(t)
		launched := claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))
		id, err := r.up(t, p, launched)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if in, err := p.Get(t.Context(), id); err != nil || in.State != provider.Failed || !in.State.Lost() {
			t.Fatalf("it is %+v, %v", in, err)
		}
		if err := r.down(t, p, id); err != nil {
			t.Fatal(err)
		}
		if left := r.residue(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		again := launched
		again.Name, again.UID = "b", "uid-of-b"
		if in, err := p.Launch(t.Context(), again); err != nil || in.Type != "Standard_E4s_v5" {
			t.Errorf("launched %s next, %v", in.Type, err)
		}
	})
}

// A virtual machine whose creation Azure canceled has failed, even if the operation is reported as
// done: the launch deletes it and goes on, long before the node would have been given up.
//
// Rule VM-5.
func TestVMThatIsCanceledAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
		if err := r.Inject(azureemulator.NamedFault{Name: "WrongFinalState"}); err != nil {
			t.Fatal(err)
		}
		p := r.provider(t)
		began := time.Now()
		if _, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // until what runs has booted
		vms := r.State().VMs
		if len(vms) != 1 || vms[0].Power != "running" || r.Struck()["WrongFinalState"] != 1 {
			t.Errorf("after %v: %+v, struck %v", time.Since(began), vms, r.Struck())
		}
	})
}

// A node whose virtual machine was resized has drifted; one with the size it was launched with
// has not, whatever the letter case.
//
// Rule DRIFT-9. Rule DRIFT-10.
func TestResizedVMHasDrifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
		p := r.provider(t)
		id, err := r.up(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
		if err != nil {
			t.Fatal(err)
		}
		drift := func(size string) provider.Drift {
			t.Helper()
			time.Sleep(time.Minute) // a list is read
			if _, err := p.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			d, err := p.Drift(t.Context(), provider.LaunchedNode{Claim: "a", ProviderID: id, Class: "default", Type: size})
			if notReady := new(provider.NotReadyError); err != nil && !errors.As(err, &notReady) { // no controller sets the class's status here
				t.Fatal(err)
			}
			return d
		}
		for _, size := range []string{"Standard_D4s_v5", "standard_d4S_V5", ""} {
			if d := drift(size); d.Reason != "" {
				t.Errorf("launched as %q: %+v", size, d)
			}
		}
		if err := r.VMs.Resize(r.State().VMs[0].Name); err != nil {
			t.Fatal(err)
		}
		if changed := p.DriftChanged(); len(changed) > 0 {
			t.Errorf("before it was listed again, %v have changed", changed)
		}
		if d := drift("Standard_D4s_v5"); d.Reason != azure.SizeDrift {
			t.Errorf("resized to %s: %+v", r.State().VMs[0].Size, d)
		}
		if changed := p.DriftChanged(); fmt.Sprint(changed) != "[a]" {
			t.Errorf("changed are %v, want a", changed)
		}
		if d := drift(""); d.Reason != "" {
			t.Errorf("the launched size is not known: %+v", d)
		}
	})
}
