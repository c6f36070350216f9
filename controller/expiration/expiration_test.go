// SPDX-License-Identifier: Apache-2.0

package expiration_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/expiration"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

func TestExpiredClaimsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never")) // its nodes expire after 720h
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(10, "a claim", func() bool { return len(e.Claims()) == 1 })
		claim := e.Claims()[0]
		r := &expiration.Reconciler{Client: e.API, Metrics: e.Metrics, Log: logr.Discard(), NodeClassKind: controllertest.NodeClassGVK().GroupKind()}
		look := func() reconcile.Result {
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)})
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		wait := look().RequeueAfter
		if wait <= 719*time.Hour || e.Claims()[0].DeletionTimestamp != nil {
			t.Errorf("comes back after %s, want when the claim expires", wait)
		}
		time.Sleep(wait)
		look()
		if e.Claims()[0].DeletionTimestamp == nil {
			t.Error("the claim outlived its expireAfter")
		}
	})
}

// An API server whose clock is behind dates each claim as old already: it is as old as by that clock.
//
// Rule CLOCK-1.
func TestClocksThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never")) // its nodes expire after 720h
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(10, "a claim", func() bool { return len(e.Claims()) == 1 })
		claim, clock := e.Claims()[0], &kube.ServerClock{}
		r := &expiration.Reconciler{Client: e.API, Clock: clock, Metrics: e.Metrics, Log: logr.Discard(), NodeClassKind: controllertest.NodeClassGVK().GroupKind()}
		time.Sleep(721 * time.Hour)
		for _, behind := range []time.Duration{2 * time.Hour, 0} {
			clock.Observe(time.Now().Add(-behind))
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)}); err != nil {
				t.Fatal(err)
			}
			if gone := e.Claims()[0].DeletionTimestamp != nil; gone != (behind == 0) {
				t.Errorf("behind by %v: the claim is gone: %t", behind, gone)
			}
		}
	})
}

// A pool may have its nodes replaced within its budgets instead: then nothing is
// deleted here, until the pool changes its mind.
//
// Rule EXPIRE-1.
func TestSoftExpiryDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		pool := controllertest.Pool("web", "Never")
		pool.Annotations = map[string]string{kube.SoftExpiryAnnotation: "true"}
		e.Create(pool)
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(10, "a claim", func() bool { return len(e.Claims()) == 1 })
		r := &expiration.Reconciler{Client: e.API, Metrics: e.Metrics, Log: logr.Discard(), NodeClassKind: controllertest.NodeClassGVK().GroupKind()}
		look := func() (gone bool) {
			claim := e.Claims()[0]
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)}); err != nil {
				t.Fatal(err)
			}
			return e.Claims()[0].DeletionTimestamp != nil
		}
		time.Sleep(721 * time.Hour)
		if look() {
			t.Fatal("a claim that expires softly was deleted")
		}
		claim := e.Claims()[0]
		if dues := kube.DueCauses(&claim, kube.SoftExpiry(pool), time.Now()); len(dues) != 1 || dues[0].Cause != disrupt.Expired {
			t.Errorf("due for %v", dues)
		}
		pool = controllertest.Get(e, &karpv1.NodePool{}, "web")
		pool.Annotations[kube.SoftExpiryAnnotation] = "maybe"
		if err := e.API.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		if !look() {
			t.Error("the claim outlived its expireAfter although the pool does not ask for soft expiry")
		}
	})
}

// While karve is paused no claim is deleted because it has expired; within a minute of its end,
// those that are due are.
//
// Rule PAUSE-1.
func TestPausedClusterExpiresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(10, "a claim", func() bool { return len(e.Claims()) == 1 })
		claim := e.Claims()[0]
		r := &expiration.Reconciler{Client: e.API, Metrics: e.Metrics, Log: logr.Discard(), NodeClassKind: controllertest.NodeClassGVK().GroupKind(), Pause: e.Pause}
		time.Sleep(721 * time.Hour)
		for _, value := range []string{"true", ""} {
			e.Control(kube.PauseAnnotation, value)
			e.Pause.Read(t.Context())
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)})
			if gone := e.Claims()[0].DeletionTimestamp != nil; err != nil || gone != (value == "") || !gone && result.RequeueAfter != time.Minute {
				t.Errorf("paused %q: deleted %v, comes back after %s: %v", value, gone, result.RequeueAfter, err)
			}
		}
	})
}

// Claims that expire together are deleted as fast as the guard allows.
//
// Rule GUARD-3.
func TestGuardHoldsExpirations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(10, "a claim", func() bool { return len(e.Claims()) == 1 })
		claim := e.Claims()[0]
		limit := &guard.Guard{What: "deletions", PerMinute: 1, Log: logr.Discard()}
		r := &expiration.Reconciler{Client: e.API, Metrics: e.Metrics, Log: logr.Discard(), NodeClassKind: controllertest.NodeClassGVK().GroupKind(), Guard: limit}
		time.Sleep(721 * time.Hour)
		if err := limit.Take(5); err != nil {
			t.Fatal(err)
		}
		for _, gone := range []bool{false, true} {
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&claim)})
			if deleted := e.Claims()[0].DeletionTimestamp != nil; err != nil || deleted != gone {
				t.Fatalf("deleted %v, want %v: %v", deleted, gone, err)
			}
			time.Sleep(result.RequeueAfter)
		}
	})
}
