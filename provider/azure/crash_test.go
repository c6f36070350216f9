// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// errKilled ends a process in the middle of a call.
var errKilled = errors.New("killed")

// A killer ends the process at one of its writes, to Azure or to the claim.
type killer struct {
	inner  policy.Transporter
	before bool // the write does not happen
	at     int  // which write, from 1
	writes int
	kill   context.CancelCauseFunc
}

// write counts a write and performs it, unless the process dies first.
func (k *killer) write(do func() error) error {
	k.writes++
	dies := k.writes == k.at
	if dies && k.before {
		k.kill(errKilled)
		return errKilled
	}
	err := do()
	if dies {
		k.kill(errKilled)
		return errKilled
	}
	return err
}

func (k *killer) Do(req *http.Request) (resp *http.Response, err error) {
	if req.Method == http.MethodGet {
		return k.inner.Do(req)
	}
	died := k.write(func() error { resp, err = k.inner.Do(req); return nil })
	if died != nil {
		return nil, died
	}
	return resp, err
}

// A life is a stored claim, and the processes that drive it one after the other.
type life struct {
	*region
	t      *testing.T
	killer *killer
	stored provider.Claim
	id     string // provider ID as stored
	p      *azure.Provider
	ctx    context.Context
}

func (l *life) begin() {
	ctx, kill := context.WithCancelCause(l.t.Context())
	l.ctx, l.killer.kill, l.p = ctx, kill, l.provider(l.t)
}

// until runs steps until one reports that it is done. A killed process is followed by another.
func (l *life) until(what string, step func() (done bool, err error)) {
	l.t.Helper()
	for range 1000 {
		done, err := step()
		switch {
		case l.ctx.Err() != nil:
			l.begin()
		case err != nil:
			l.t.Fatalf("%s: %v", what, err)
		case done:
			return
		}
		time.Sleep(2 * time.Second)
	}
	l.t.Fatalf("never: %s", what)
}

// launch takes one step and stores the result, as the lifecycle does.
func (l *life) launch() (bool, error) {
	c := l.stored
	c.LaunchState = maps.Clone(c.LaunchState)
	in, err := l.p.Launch(l.ctx, c)
	if err != nil {
		return false, err
	}
	if in.ProviderID != "" && in.ProviderID != l.id || !maps.Equal(remembering(l.stored.LaunchState, in.LaunchState), l.stored.LaunchState) {
		if err := l.killer.write(func() error { l.store(in); return nil }); err != nil {
			return false, err
		}
	}
	return in.State == provider.Running, nil
}

func (l *life) store(in provider.Instance) {
	if in.ProviderID != "" {
		l.id = in.ProviderID
	}
	l.stored.LaunchState = remembering(l.stored.LaunchState, in.LaunchState)
}

// remembering returns the claim's state after an update; an empty value deletes.
func remembering(had, reported map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, had)
	maps.Copy(all, reported)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// end takes one step of deleting the resources of the claim.
func (l *life) end() (bool, error) {
	var err error
	if l.id != "" {
		err = l.p.Terminate(l.ctx, l.id)
	} else {
		err = l.p.TerminateByClaim(l.ctx, l.stored)
	}
	if errors.Is(err, provider.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// Wherever karve is killed, the next process continues: a virtual machine whose creation fails
// late is replaced by the next offering, there is never a second one, and the deletion leaves
// nothing behind.
//
// Rule VM-4, Rule AKS-1.
func TestKilledAtEveryWrite(t *testing.T) {
	for name, c := range map[string]struct {
		before, byAKS bool
		least         int
	}{
		// Two creations, two deletions, an interface, and the claim's state in between.
		"before": {before: true, least: 8}, "after": {least: 8},
		// AKS leaves no interface, and its operations are not recorded.
		"before, by AKS": {before: true, byAKS: true, least: 5}, "after, by AKS": {byAKS: true, least: 5},
	} {
		t.Run(name, func(t *testing.T) {
			points := 0
			for struck := true; struck && !t.Failed(); points++ {
				synctest.Test(t, func(t *testing.T) { struck = liveAndDie(t, c.before, c.byAKS, points+1) })
			}
			if points <= c.least {
				t.Errorf("it was killed at %d writes only", points-1)
			}
		})
	}
}

// liveAndDie reports whether the process was killed at all.
func liveAndDie(t *testing.T, before, byAKS bool, at int) bool {
	r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, Seed: uint64(at)}).small()
	if byAKS {
		r.aks(1)
	}
	r.stockOut(t, onDemand("Standard_D4s_v5", "eastus-1"), true)
	options := *r.options.ClientOptions
	k := &killer{inner: options.Transport, before: before, at: at}
	options.Transport = k
	r.options.ClientOptions = &options
	l := &life{region: r, t: t, killer: k, stored: claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1"))}
	l.begin()
	l.until("it runs", l.launch)
	if vms := r.State().VMs; len(vms) != 1 || vms[0].Size != "Standard_E4s_v5" {
		t.Errorf("killed at write %d: VMs %+v", at, vms)
	}
	if !byAKS {
		r.leaveNIC(t, r.State().VMs[0].Name+"-left", l.stored)
	}
	l.until("it is gone", l.end)
	time.Sleep(time.Minute)
	if left := append(r.residue(t), r.pooled()...); len(left) > 0 {
		t.Errorf("killed at write %d: left behind: %v", at, left)
	}
	if n := r.Ledger().ByOperation["VirtualMachines.CreateOrUpdate"] + r.Ledger().ByOperation["Machines.CreateOrUpdate"]; n > 3 {
		t.Errorf("killed at write %d: %d creations", at, n)
	}
	return k.writes >= at
}
