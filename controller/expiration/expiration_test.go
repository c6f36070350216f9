package expiration_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/expiration"
	"github.com/karve-dev/karve/provider/memory"
)

func TestExpiredClaimsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never")) // its nodes live for 720h
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(10, "a claim", func() bool { return len(e.Claims()) == 1 })
		claim := e.Claims()[0]
		r := &expiration.Reconciler{Client: e.API, Metrics: e.Metrics, Log: logr.Discard(), Class: controllertest.Class().GroupKind()}
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
