// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// A counter counts the requests that pass.
type counter struct {
	inner policy.Transporter
	mu    sync.Mutex
	see   func(*http.Request)
}

func (c *counter) Do(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.see(req)
	c.mu.Unlock()
	return c.inner.Do(req)
}

func (r *region) watched(see func(*http.Request)) *region {
	options := *r.options.ClientOptions
	options.Transport = &counter{inner: options.Transport, see: see}
	r.options.ClientOptions = &options
	return r
}

// Machines that are alike are created, and all are deleted, with few requests: AKS allows 60 a
// minute for everything, of which half are karve's.
//
// Rule AKS-2.
func TestAKSMachinesShareRequests(t *testing.T) {
	const n = 120
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Throttle: true, Seed: 1}).small().aks(azure.MostInBatch)
		r.options.AKSMachines.Batching = azure.Batching{Size: azure.MostInBatch}
		most := 0
		r.watched(func(req *http.Request) {
			most = max(most, strings.Count(req.Header.Get("BatchPutMachine"), "machineName"))
		})
		p := r.provider(t)
		ids := make([]string, n)
		r.each(t, n, func(i int) (err error) {
			ids[i], err = r.up(t, p, claim(fmt.Sprint("web-", i), onDemand("Standard_D4s_v5", fmt.Sprint("eastus-", 1+i%3))))
			return err
		})
		r.each(t, n, func(i int) error { return r.down(t, p, ids[i]) })
		if left := append(r.residue(t), r.pooled()...); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		done := r.Ledger()
		if puts, ends := done.ByOperation["Machines.CreateOrUpdate"], done.ByOperation["AgentPools.DeleteMachines"]; puts > n/20 || ends > n/10 || most > azure.MostInBatch {
			t.Errorf("%d requests to make %d machines, %d to end them, up to %d with one", puts, n, ends, most)
		}
		if done.Throttled > 0 {
			t.Errorf("%d requests were refused for coming too often", done.Throttled)
		}
	})
}

// When AKS refuses machines of a batch, the error reaches the launches of those machines, for
// client errors and for errors of AKS itself.
//
// Rule AKS-2.
func TestPartOfABatchIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, Seed: 1}).small().aks(azure.MostInBatch)
		p := r.provider(t)
		first := make([]provider.Instance, 3)
		errs := make([]error, 3)
		r.fault(t, azureemulator.Fault{Method: "PUT", Path: "/machines/", Status: http.StatusInternalServerError, Code: "BatchMachineInternalServerError", Times: -1,
			Message: `[{"code":"SkuNotAvailable","message":"none left","target":"` + handleOf("b") + `"}]`})
		r.each(t, 3, func(i int) error {
			c := claim(string(rune('a'+i)), onDemand("Standard_D4s_v5", "eastus-1"))
			first[i], errs[i] = p.Launch(t.Context(), c)
			return nil
		})
		for i, err := range errs {
			var none *provider.CapacityError
			switch refused := errors.As(err, &none); {
			case i == 1 && (!refused || none.Refused[0].Code != "SkuNotAvailable"):
				t.Errorf("b, which was refused for stock: %v", err)
			case i != 1 && (err == nil || refused):
				t.Errorf("%d, of which nobody knows: %+v, %v", i, first[i], err)
			}
		}
		r.ClearFaults()
		for _, name := range []string{"a", "c"} {
			if _, err := r.up(t, p, claim(name, onDemand("Standard_E4s_v5", "eastus-1"))); err != nil {
				t.Error(err)
			}
		}
		r.wantMachines(t, 2)
	})
}

// When AKS refuses to delete a machine, the others of its batch are deleted all the same.
//
// Rule AKS-2.
func TestOneOfABatchCannotBeDeleted(t *testing.T) {
	const n = 12
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().aks(azure.MostInBatch)
		r.options.AKSMachines.Batching = azure.Batching{Idle: time.Second, MaxWait: 5 * time.Second, Size: azure.MostInBatch}
		guard := &unending{inner: r.options.ClientOptions.Transport, name: handleOf("web-7")}
		options := *r.options.ClientOptions
		options.Transport = guard
		r.options.ClientOptions = &options
		p := r.provider(t)
		ids := make([]string, n)
		r.each(t, n, func(i int) (err error) {
			ids[i], err = r.up(t, p, claim(fmt.Sprint("web-", i), onDemand("Standard_D4s_v5", "eastus-1")))
			return err
		})
		r.each(t, n, func(i int) error {
			if err := r.down(t, p, ids[i]); (err != nil) != (i == 7) {
				return fmt.Errorf("web-%d: %w", i, err)
			}
			return nil
		})
		if left := r.pooled(); len(left) != 1 || left[0] != "pooled "+handleOf("web-7") {
			t.Errorf("the pool has %v", left)
		}
		guard.name = ""
		if err := r.down(t, p, ids[7]); err != nil {
			t.Error(err)
		}
	})
}

// unending refuses delete requests that contain the machine of that name.
type unending struct {
	inner policy.Transporter
	name  string
}

func (u *unending) Do(req *http.Request) (*http.Response, error) {
	if u.name == "" || !strings.HasSuffix(req.URL.Path, "/deleteMachines") {
		return u.inner.Do(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(body), u.name) {
		return &http.Response{
			StatusCode: http.StatusBadRequest, Status: "400 Bad Request", Request: req, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{"code":"MachineIsProtected","message":"A machine cannot be deleted."}`)),
		}, nil
	}
	req.Body = io.NopCloser(strings.NewReader(string(body)))
	return u.inner.Do(req)
}

// handleOf returns AKS's name for the machine of claim(name). It must not change from one
// version to the next, or machines would be created twice.
func handleOf(name string) string {
	sum := sha256.Sum256([]byte("uid-of-" + name))
	return name + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:10]
}

// Another process was faster: its machine is found, and none is created twice.
//
// Rule AKS-1.
func TestAKSMachineThatExistsIsReadAgain(t *testing.T) {
	for _, size := range []int{1, azure.MostInBatch} {
		r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(size)
		blind, other := r.provider(t), r.provider(t)
		c := claim("a", onDemand("Standard_D4s_v5", "eastus-1"))
		r.options.PollEvery = time.Hour
		late := r.provider(t)
		if _, err := late.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		run(t, other, c)
		both := []provider.Claim{c, claim("b", onDemand("Standard_D4s_v5", "eastus-1"))}
		r.each(t, 2, func(i int) error {
			in, err := late.Launch(t.Context(), both[i])
			if err == nil && in.RetryAfter <= 0 {
				err = fmt.Errorf("it has %+v at once", in)
			}
			return err
		})
		for _, c := range both {
			if in, _ := run(t, blind, c); in.ClaimUID != c.UID {
				t.Errorf("launched again: %+v", in)
			}
		}
		r.wantMachines(t, 2)
	}
}

// A caller that gives up before the request was sent launches nothing.
//
// Rule AKS-2.
func TestLaunchThatGivesUpLeavesItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, Seed: 1}).small().aks(azure.MostInBatch)
		r.options.AKSMachines.Batching = azure.Batching{Size: azure.MostInBatch}
		p := r.provider(t)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := p.Launch(ctx, claim("a", onDemand("Standard_D4s_v5", "eastus-1"))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("launching for 100 ms: %v", err)
		}
		if _, err := r.up(t, p, claim("b", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if pooled := r.pooled(); len(pooled) != 1 || !strings.HasPrefix(pooled[0], "pooled b-") {
			t.Errorf("the pool has %v", pooled)
		}
	})
}

// Machines of both backends are listed, followed and deleted, whichever backend creates new
// ones.
//
// Rule AKS-3.
func TestModesCanBeSwitched(t *testing.T) {
	for name, createNodes := range map[string]bool{"to Compute": true, "to AKS": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, Seed: 1}).small().aks(1)
				r.options.AKSMachines.CreateNodes = createNodes
				c := claim("old", onDemand("Standard_D4s_v5", "eastus-1"))
				before := r.mustRun(t, r.provider(t), c)
				r.options.AKSMachines.CreateNodes = !createNodes
				p := r.provider(t)
				after := r.mustRun(t, p, claim("new", onDemand("Standard_D4s_v5", "eastus-1")))
				if again := r.mustRun(t, p, c); again != before {
					t.Errorf("after the switch claim old has %s beside %s", again, before)
				}
				if list, err := p.List(t.Context()); err != nil || len(list) != 2 {
					t.Errorf("listed: %+v, %v", list, err)
				}
				if n := len(r.pooled()); n != 1 {
					t.Errorf("AKS has %d machines", n)
				}
				for _, id := range []string{before, after} {
					r.mustEnd(t, p, id)
				}
			})
		})
	}
}

func (r *region) mustRun(t *testing.T, p *azure.Provider, c provider.Claim) (id string) {
	t.Helper()
	id, err := r.up(t, p, c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// mustEnd deletes a machine, and checks that nothing is left behind of it.
func (r *region) mustEnd(t *testing.T, p *azure.Provider, id string) {
	t.Helper()
	if err := r.down(t, p, id); err != nil {
		t.Error(err)
	}
	list, err := p.List(t.Context())
	if left := append(r.residue(t), r.pooled()...); err != nil || len(list) == 0 && len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// An AKS machine without a size is reported, and the rest of the list counts.
//
// Rule COLLECT-1.
func TestBadRowsOfAKSArePassedOver(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	p := r.provider(t)
	good, _ := run(t, p, claim("good", onDemand("Standard_D2s_v5", "eastus-1")))
	c := claim("bad", onDemand("Standard_E2s_v5", "eastus-1"))
	run(t, p, c)
	r.edited(func(url, list string) string {
		if strings.Contains(url, "/machines") {
			return strings.Replace(list, `"hardware":{"vmSize":"Standard_E2s_v5"}`, `"hardware":{}`, 1)
		}
		return list
	})
	p = r.provider(t)
	list, err := p.List(t.Context())
	if err != nil || !slices.ContainsFunc(list, func(in provider.Instance) bool { return in.ProviderID == good.ProviderID }) {
		t.Errorf("listed: %+v, %v", list, err)
	}
	if rows := p.Unreadable(); len(rows) != 1 || rows[0].Claim != "bad" || !strings.Contains(rows[0].Why, "size") {
		t.Errorf("unreadable: %+v", rows)
	}
	if _, err := p.Launch(t.Context(), c); err != nil {
		t.Errorf("launching again: %v", err)
	}
	r.wantMachines(t, 2)
}

// AKS reports when it would recreate a machine, and that is noticed once.
//
// Rule AKS-4. Rule DRIFT-10.
func TestDriftThatAKSTells(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	r.class.Store(settledClass("1.36.3"))
	p := r.provider(t)
	in, _ := run(t, p, claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
	drift := func() provider.Drift {
		t.Helper()
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, err := p.Drift(t.Context(), provider.LaunchedNode{Claim: "a", ProviderID: in.ProviderID, Class: "default", ImageID: in.ImageID, Annotations: in.Annotations})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := drift(); d.Reason != "" {
		t.Errorf("as it was made: %+v", d)
	}
	if changed := p.DriftChanged(); len(changed) > 0 {
		t.Errorf("seen for the first time, %v have changed", changed)
	}
	if err := r.VMs.DriftMachine(handleOf("a"), "the cluster's certificates were rotated"); err != nil {
		t.Fatal(err)
	}
	if d := drift(); d.Reason != azure.ClusterConfigDrift || !strings.Contains(d.Detail, "certificates") {
		t.Errorf("AKS says that it has drifted: %+v", d)
	}
	if changed := p.DriftChanged(); fmt.Sprint(changed) != "[a]" {
		t.Errorf("changed are %v, want a", changed)
	}
	if changed := p.DriftChanged(); len(changed) > 0 {
		t.Errorf("%v have changed again", changed)
	}
}

// AKS reports a refusal by Compute as the failure of a machine that it had accepted; it has the
// same effect.
//
// Rule AKS-1.
func TestAKSMachineFailures(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	r.fault(t, azureemulator.Fault{Path: "/usages", Status: http.StatusForbidden, Times: -1}) // or it would not be tried
	if err := r.Capacity.SetQuota("standardDSv5Family", 2); err != nil {
		t.Fatal(err)
	}
	_, attempts := run(t, r.provider(t), claim("a", onDemand("Standard_D4s_v5", "eastus-1"), onDemand("Standard_E4s_v5", "eastus-1")))
	if len(attempts) == 0 || attempts[0].Reason != "Quota" || attempts[0].Offering.Type != "Standard_D4s_v5" {
		t.Errorf("attempts: %+v", attempts)
	}
	r.wantMachines(t, 1)
}

// A machine whose virtual machine was deleted behind AKS's back is still deleted through AKS.
//
// Rule AKS-1.
func TestEvictedAKSMachineIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, Seed: 1}).small().aks(1)
		p := r.provider(t)
		id := r.mustRun(t, p, claim("a", spot("Standard_D4s_v5", "eastus-1")))
		if err := r.VMs.Evict(r.State().VMs[0].Name, -1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		got, err := p.Get(t.Context(), id)
		if err != nil || got.State != provider.Stopped || got.ProviderID != id {
			t.Errorf("it is %+v, %v", got, err)
		}
		r.mustEnd(t, p, id)
	})
}

// A claim records AKS's name for its machine if AKS created it.
//
// Rule AKS-1.
func TestClaimNotesItsAKSMachine(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small().aks(1)
	in, _ := run(t, r.provider(t), claim("a", onDemand("Standard_D4s_v5", "eastus-1")))
	want := "/managedClusters/karve/agentPools/" + r.MachinesPool() + "/machines/" + handleOf("a")
	if id := in.Annotations["karpenter.azure.com/aks-machine-resource-id"]; !strings.HasPrefix(id, "/subscriptions/") || !strings.HasSuffix(id, want) {
		t.Errorf("the claim notes %q, which does not end in %s", id, want)
	}
	r.options.AKSMachines.CreateNodes = false
	in, _ = run(t, r.provider(t), claim("b", onDemand("Standard_D4s_v5", "eastus-1")))
	if id, noted := in.Annotations["karpenter.azure.com/aks-machine-resource-id"]; noted {
		t.Errorf("the claim of a machine of Compute's notes %q", id)
	}
}

// Without its pool AKS creates nothing, and the node class says what to do: none of its
// offerings is available, and AKS is asked once a minute until the pool exists.
//
// Rule AKS-6.
func TestPoolThatDoesNotExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().aks(1)
		r.options.AKSMachines.Pool = "later"
		p := r.provider(t)
		before, _ := blocked(t, p, "default")
		for i := range 150 {
			_, err := p.Launch(t.Context(), claim(fmt.Sprint("a", i), onDemand("Standard_D4s_v5", "eastus-1")))
			var notReady *provider.NotReadyError
			if !errors.As(err, &notReady) || notReady.Reason != azure.ClassWithoutPool || !strings.Contains(notReady.Detail, "az aks nodepool add") {
				t.Fatalf("launching: %v", err)
			}
			time.Sleep(time.Second)
		}
		if n := r.requested(); n != 3 {
			t.Errorf("%d requests in 150 s, want 3", n)
		}
		if n, why := blocked(t, p, "default"); n == before || !strings.Contains(why, "later") {
			t.Errorf("%d offerings are unavailable, %d before: %s", n, before, why)
		}
		if reason, detail := p.ClassPause("default"); reason != azure.ClassWithoutPool || !strings.Contains(detail, "az aks nodepool add") {
			t.Errorf("the class says %s: %s", reason, detail)
		}
		r.addPool(t, "later")
		time.Sleep(time.Minute)
		if _, err := r.up(t, p, claim("b", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil {
			t.Errorf("once there is one: %v", err)
		}
	})
}

// addPool adds an agent pool for single machines.
func (r *region) addPool(t *testing.T, name string) {
	t.Helper()
	pools, err := aks.NewAgentPoolsClient(r.SubscriptionID(), r.options.Credential, r.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	mode := aks.AgentPoolMode("Machines")
	if _, err := pools.BeginCreateOrUpdate(t.Context(), r.ClusterResourceGroup(), "karve", name,
		aks.AgentPool{Properties: &aks.ManagedClusterAgentPoolProfileProperties{Mode: &mode}}, nil); err != nil {
		t.Fatal(err)
	}
}

// While AKS updates the cluster it accepts no other request: every launch waits, and neither
// sizes nor the class are blocked.
//
// Rule AKS-7.
func TestClusterThatIsBeingChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1, Seed: 1}).small().aks(1)
		p := r.provider(t)
		before, _ := blocked(t, p, "default")
		r.fault(t, azureemulator.Fault{Method: "PUT|POST", Path: "/agentPools/", Status: http.StatusConflict, Code: "OperationNotAllowed", Flat: true, Times: 4,
			Message: "Operation is not allowed: Another agentpool operation (machines - Updating) is in progress, please wait for it to finish before starting a new operation."})
		start := time.Now()
		for i := range 4 {
			in, err := p.Launch(t.Context(), claim("a", everySize()...))
			if err != nil || in.Type != "" || in.RetryAfter < 30*time.Second {
				t.Fatalf("%d: %+v, %v", i, in, err)
			}
			time.Sleep(in.RetryAfter)
		}
		if n, why := blocked(t, p, "default"); n != before {
			t.Errorf("%d offerings are unavailable, such as %s", n-before, why)
		}
		if reason, detail := p.ClassPause("default"); reason != "" {
			t.Errorf("the class says %s: %s", reason, detail)
		}
		if _, err := r.up(t, p, claim("a", everySize()...)); err != nil || time.Since(start) > 5*time.Minute {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}
