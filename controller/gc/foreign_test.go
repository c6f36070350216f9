// SPDX-License-Identifier: Apache-2.0

package gc_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// Claims with provider IDs of another cloud do not make the cloud's list doubtful, however many
// they are: other garbage is collected. Each of them is reported once.
//
// Rule LAUNCH-10.
func TestForeignProviderIDsAreToldOnceAndHaltNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := launched(t, 6)
		e.Join()
		e.Until(20, "initialized claims", func() bool { return e.Ready() == 6 })
		claims, lost := e.Claims()[:5], e.Claims()[5]
		for i := range claims {
			adrift(e, &claims[i])
		}
		node := e.Nodes()[slices.IndexFunc(e.Nodes(), ofClaim(lost))]
		node.Finalizers = nil
		if err := e.API.Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Delete(&node)
		e.Cloud.Reclaim(lost.Status.ProviderID)
		for range 3 {
			if err := e.Collector.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second) // events are written concurrently
		for i := range claims {
			claim := controllertest.Get(e, &karpv1.NodeClaim{}, claims[i].Name)
			c := claim.StatusConditions().Get(kube.ConditionProviderIDRecognized)
			reportErr := slices.DeleteFunc(e.EventTexts(claim.Name), func(s string) bool { return !strings.HasPrefix(s, "ForeignProviderID: ") })
			if claim.DeletionTimestamp != nil || !c.IsFalse() || len(reportErr) != 1 || !strings.Contains(reportErr[0], "other:///") {
				t.Errorf("claim %s: deleted %v, says %+v and %q", claim.Name, claim.DeletionTimestamp, c, reportErr)
			}
		}
		if e.Counter("karve_garbage_collection_halted") != 0 || slices.ContainsFunc(e.Claims(), func(c karpv1.NodeClaim) bool { return c.Name == lost.Name && c.DeletionTimestamp == nil }) {
			t.Error("the claim whose instance is gone was not collected")
		}
	})
}

// adrift gives a claim and its Node, which is ready, a provider ID of another cloud.
func adrift(e *controllertest.Env, claim *karpv1.NodeClaim) {
	e.T.Helper()
	node := e.Nodes()[slices.IndexFunc(e.Nodes(), ofClaim(*claim))]
	node.Spec.ProviderID = "other:///" + claim.Name
	if err := e.API.Update(e.T.Context(), &node); err != nil {
		e.T.Fatal(err)
	}
	if err := memory.New(e.Cloud).Terminate(e.T.Context(), claim.Status.ProviderID); err != nil {
		e.T.Fatal(err)
	}
	claim.Status.ProviderID = node.Spec.ProviderID
	if err := e.API.Status().Update(e.T.Context(), claim); err != nil {
		e.T.Fatal(err)
	}
}
