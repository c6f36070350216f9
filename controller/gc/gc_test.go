// SPDX-License-Identifier: Apache-2.0

package gc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// launched launches n instances whose nodes never join.
func launched(t *testing.T, n int) *controllertest.Env {
	t.Helper()
	e := controllertest.New(t, memory.Options{})
	e.Create(controllertest.Pool("web", "Never"))
	for i := range n {
		e.Create(controllertest.Pod(fmt.Sprint("web-", i), "31", "1Gi"))
	}
	e.Until(10, "launched claims", func() bool {
		up := 0
		for _, c := range e.Claims() {
			if kube.ConditionTrue(&c, karpv1.ConditionTypeLaunched) {
				up++
			}
		}
		return up == n
	})
	time.Sleep(2 * time.Minute)
	return e
}

func deleting(e *controllertest.Env) int {
	n := 0
	for _, c := range e.Claims() {
		if c.DeletionTimestamp != nil {
			n++
		}
	}
	return n
}

func TestClaimWithoutInstanceGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 5)
		e.Cloud.Reclaim(e.Cloud.ProviderIDs()[0])
		if err := e.Collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := deleting(e); got != 1 {
			t.Errorf("%d claims are being deleted, want the one without an instance", got)
		}
		for _, c := range e.Claims() {
			if kube.Interrupted(&c) != (c.DeletionTimestamp != nil) {
				t.Errorf("claim %s: %v", c.Name, c.Annotations)
			}
		}
	})
}

// stray launches an instance that belongs to no claim.
func stray(t *testing.T, e *controllertest.Env) {
	t.Helper()
	p := memory.New(e.Cloud)
	snapshot, err := p.Catalog(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	choices, err := kube.Offerings(&karpv1.NodeClaim{}, snapshot.Types)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Launch(t.Context(), provider.Claim{Name: "stray", UID: "nobody", Offerings: choices}); err != nil {
		t.Fatal(err)
	}
}

func TestInstanceWithoutClaimGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 2)
		stray(t, e)
		if err := e.Collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(e.Cloud.ProviderIDs()); got != 3 {
			t.Fatalf("an instance whose claim may still be on its way was terminated: %d left", got)
		}
		time.Sleep(time.Minute)
		if err := e.Collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(e.Cloud.ProviderIDs()); got != 2 || deleting(e) != 0 {
			t.Errorf("%d instances, %d claims being deleted; want the 2 that have claims, untouched", got, deleting(e))
		}
	})
}

// A deletion can get stuck: Terminate is called for an instance without a claim until the instance
// is deleted. The provider decides whether another request is needed.
//
// Rule VM-7.
func TestTerminatingInstanceIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{Delete: time.Hour})
		stray(t, e)
		for range 5 {
			time.Sleep(2 * time.Minute)
			if err := e.Collector.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := e.Cloud.Calls()["terminate"]; n != 5 {
			t.Errorf("the provider was asked %d times in 5 rounds", n)
		}
	})
}

// truncated lists fewer instances than exist, and Get does not find the rest.
type truncated struct {
	provider.Provider
	keep int
	err  error
}

func (p truncated) List(ctx context.Context) ([]provider.Instance, error) {
	all, err := p.Provider.List(ctx)
	return all[:p.keep], errors.Join(err, p.err)
}

// Rule COLLECT-3.
func TestListThatCannotBeTrustedHalts(t *testing.T) {
	for name, tc := range map[string]truncated{
		"error": {keep: 5, err: errors.New("throttled")},
		"empty": {keep: 0},
		"short": {keep: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := launched(t, 5)
				whole := e.Collector.Provider
				tc.Provider = whole
				e.Collector.Provider = tc
				// However long it lasts: Get finds the missing instances.
				for range 40 {
					if err := e.Collector.Collect(t.Context()); err == nil {
						t.Error("no word about it")
					}
					time.Sleep(30 * time.Second)
				}
				if deleting(e) != 0 || len(e.Cloud.ProviderIDs()) != 5 {
					t.Error("it was acted on")
				}
				if e.Counter("karve_garbage_collection_halted") != 1 {
					t.Error("the alarm is not raised")
				}
				e.Collector.Provider = whole
				if err := e.Collector.Collect(t.Context()); err != nil || e.Counter("karve_garbage_collection_halted") != 0 {
					t.Errorf("a good list does not end the halt: %v", err)
				}
			})
		})
	}
}

// A tenth of a large cluster may vanish, a little more may not. Instances that certainly do not
// exist any more are collected ten minutes later all the same.
//
// Rule COLLECT-3.
func TestMassLossIsBelievedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 40)
		for _, m := range e.Cloud.ProviderIDs()[:5] {
			e.Cloud.Reclaim(m)
		}
		if err := e.Collector.Collect(t.Context()); err == nil || deleting(e) != 0 {
			t.Fatalf("5 of 40 instances vanished at once: %v, %d claims are being deleted", err, deleting(e))
		}
		time.Sleep(9 * time.Minute)
		if err := e.Collector.Collect(t.Context()); err == nil || deleting(e) != 0 {
			t.Fatalf("nine minutes later: %v, %d claims are being deleted", err, deleting(e))
		}
		time.Sleep(time.Minute)
		if err := e.Collector.Collect(t.Context()); err != nil || deleting(e) != 5 || e.Counter("karve_garbage_collection_halted") != 0 {
			t.Errorf("ten minutes later: %v, %d claims are being deleted", err, deleting(e))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 40)
		for _, m := range e.Cloud.ProviderIDs()[:4] {
			e.Cloud.Reclaim(m)
		}
		if err := e.Collector.Collect(t.Context()); err != nil || deleting(e) != 4 {
			t.Errorf("4 of 40 instances vanished: %v, %d claims are being deleted", err, deleting(e))
		}
	})
}

// garbled has malformed entries in its lists.
type garbled []provider.Unreadable

func (g garbled) Unreadable() []provider.Unreadable { return g }

// Rule COLLECT-1.
func TestUnreadableRowsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 1)
		e.Collector.UnreadableLister = garbled{{Kind: "virtual machines", Name: "a", Claim: e.Claims()[0].Name, Why: "torn"}, {Kind: "disks", Why: "empty"}}
		for range 3 {
			if err := e.Collector.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := e.Counter("karve_garbage_collection_unreadable_instances"); n != 2 {
			t.Errorf("%v rows are counted, want 2", n)
		}
		e.Steps(2) // events are written concurrently
		var said []string
		for _, text := range e.EventTexts(e.Claims()[0].Name) {
			if strings.HasPrefix(text, "InstanceUnreadable: ") {
				said = append(said, text)
			}
		}
		if len(said) != 1 {
			t.Errorf("said %q", said)
		}
		e.Collector.UnreadableLister = garbled{}
		if err := e.Collector.Collect(t.Context()); err != nil || e.Counter("karve_garbage_collection_unreadable_instances") != 0 {
			t.Errorf("still counted: %v", err)
		}
	})
}

// A list may lag: an instance that Get still finds, or whose node still reports, is kept.
func TestMissingFromListAloneIsNoProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 5)
		e.Collector.Provider = truncated{Provider: e.Collector.Provider, keep: 4}
		if err := e.Collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if deleting(e) != 0 {
			t.Error("a claim went although its instance can be found")
		}
	})
}

// nameless lists instances like those of a provisioner that did not record claim UIDs.
type nameless struct {
	provider.Provider
	ended []string
}

func (p *nameless) List(ctx context.Context) ([]provider.Instance, error) {
	all, err := p.Provider.List(ctx)
	for i := range all {
		all[i].ClaimUID = ""
		all[i].ProviderID = strings.ToUpper(all[i].ProviderID)
	}
	return all, err
}

func (p *nameless) Terminate(_ context.Context, id string) error {
	p.ended = append(p.ended, id)
	return nil
}

// Instances that another provider created are matched by provider ID, and by the name of their
// claim while the claim has none.
//
// Rule TAKEOVER-3.
func TestInstancesWithoutUIDsAreTheirClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 5)
		p := &nameless{Provider: e.Collector.Provider}
		e.Collector.Provider = p
		claim := e.Claims()[0]
		claim.Status = karpv1.NodeClaimStatus{} // requested, provider ID not recorded yet
		if err := e.API.Status().Update(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
		if err := e.Collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(p.ended) > 0 || deleting(e) > 0 || e.Counter("karve_garbage_collection_halted") != 0 {
			t.Errorf("ended %v, %d claims are being deleted", p.ended, deleting(e))
		}
	})
}

// tidier counts its calls, and records what claimed reported.
type tidier struct {
	asked int
	lives bool
	uid   string
}

func (x *tidier) CollectLeftovers(_ context.Context, claimed func(name, uid string) bool) ([]string, error) {
	x.asked++
	x.lives = claimed("", x.uid)
	return []string{"nic-left-behind"}, nil
}

func TestPartsLeftBehindAreLookedForNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 1)
		x := &tidier{uid: string(e.Claims()[0].UID)}
		e.Collector.LeftoverCollector = x
		for range 3 {
			if err := e.Collector.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if x.asked != 1 || !x.lives {
			t.Errorf("asked %d times, living claim known: %v; want once in five minutes and yes", x.asked, x.lives)
		}
		time.Sleep(5 * time.Minute)
		if err := e.Collector.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x.asked != 2 {
			t.Errorf("asked %d times in five minutes and one round, want 2", x.asked)
		}
	})
}

// ofClaim finds the Node of a claim.
func ofClaim(claim karpv1.NodeClaim) func(corev1.Node) bool {
	return func(n corev1.Node) bool { return n.Spec.ProviderID == claim.Status.ProviderID }
}
