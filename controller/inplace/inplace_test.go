// SPDX-License-Identifier: Apache-2.0

package inplace_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/inplace"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// changer returns the results that a test sets.
type changer struct {
	update provider.Update
	err    error
	asked  []provider.LaunchedNode
}

func (c *changer) Update(_ context.Context, m provider.LaunchedNode) (provider.Update, error) {
	c.asked = append(c.asked, m)
	return c.update, c.err
}

// The provider is asked about registered instances. Its changes and failures are
// counted, and an event on the claim gives the reason of a failure.
//
// Rule SETTING-1.
func TestRegisteredNodesAreBroughtUpToDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("pod", "1", "1Gi"))
		e.Until(10, "a claim", func() bool { return len(e.Claims()) == 1 })
		c := &changer{}
		r := &inplace.Reconciler{Client: e.Client, Updater: c, Events: e.Events, Metrics: e.Metrics, Log: logr.Discard(), NodeClassGVK: controllertest.NodeClassGVK()}
		look := func() time.Duration {
			t.Helper()
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&e.Claims()[0])})
			if err != nil {
				t.Fatal(err)
			}
			return result.RequeueAfter
		}
		if look(); len(c.asked) > 0 {
			t.Fatal("a node that has not registered is changed")
		}
		e.Until(60, "a node", func() bool { e.Join(); return e.Ready() == 1 })
		if after := look(); after != 10*time.Minute || len(c.asked) != 1 || c.asked[0].ProviderID != e.Claims()[0].Status.ProviderID || c.asked[0].Class != "default" {
			t.Errorf("looks again after %v, asked %+v", after, c.asked)
		}
		c.update = provider.Update{Changed: "tags", RetryAfter: time.Minute}
		if after := look(); after != time.Minute || e.Counter("karve_nodeclaims_updated_in_place_total") != 1 {
			t.Errorf("looks again after %v", after)
		}
		c.err = errors.New("not allowed: assign a role")
		if after := look(); after != 10*time.Minute || e.Counter("karve_nodeclaims_updated_in_place_total") != 2 {
			t.Errorf("after a failure it looks again after %v", after)
		}
		e.Steps(2)
		if texts := strings.Join(e.EventTexts(e.Claims()[0].Name), "\n"); !strings.Contains(texts, "InPlaceUpdateFailed") || !strings.Contains(texts, "assign a role") {
			t.Errorf("events: %s", texts)
		}
		c.err = &provider.NotReadyError{}
		look()
		if e.Counter("karve_nodeclaims_updated_in_place_total") != 2 {
			t.Error("a class that is not ready counts as a failure")
		}
	})
}
