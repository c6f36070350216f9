// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/kube"
)

// karve looks at a cluster of Karpenter's provider for an hour and leaves it alone:
// nothing is deleted, nothing drifts, nothing is replaced, and Azure is only read.
//
// Rule TAKEOVER-1.
func TestNoOwnerChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inherit(t)
		before := c.everything()
		k := c.start()
		k.run(time.Hour)
		for _, w := range k.writes {
			if !ownStatus(w) {
				t.Errorf("an unwanted write: %s", w)
			}
		}
		if diff := cmp.Diff(before, k.everything()); diff != "" {
			t.Errorf("what karve took over has changed:\n%s", diff)
		}
		if len(k.changes) > 0 {
			t.Errorf("changed in Azure: %q", k.changes)
		}
	})
}

// ownStatus reports whether a write is to the status of classes and pools, or to karve's own
// annotations of a class.
func ownStatus(w write) bool {
	remembers := strings.HasPrefix(w.body, `{"metadata":{"annotations":{"karve.dev/tag-keys":`) && strings.Count(w.body, "/") == 1
	return w.kind == "v1beta1.AKSNodeClass" && (w.verb == "patch status" || w.verb == "patch" && remembers) ||
		w.kind == "v1.NodePool" && w.verb == "patch status"
}

// everything lists the objects that must not change when karve starts: VMs, and their objects.
func (c *cluster) everything() map[string][]string {
	c.t.Helper()
	return map[string][]string{
		"claims": c.state(&karpv1.NodeClaimList{}), "nodes": c.state(&corev1.NodeList{}), "pods": c.state(&corev1.PodList{}),
		"VMs":        {c.ask(http.MethodGet, "/providers/Microsoft.Compute/virtualMachines", nil)},
		"interfaces": {c.ask(http.MethodGet, "/providers/Microsoft.Network/networkInterfaces", nil)},
		"disks":      {c.ask(http.MethodGet, "/providers/Microsoft.Compute/disks", nil)},
	}
}

// The hour in which nothing happened was one of work: the same karve sees at once that a
// newer image is there.
//
// Rule TAKEOVER-1.
func TestWhatChangesAfterwardsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inherit(t, `budgets: [{nodes: "100%"}]`, `budgets: [{nodes: "0"}]`)
		k := c.start()
		k.run(time.Minute)
		if got := k.drifted(); len(got) > 0 {
			t.Fatalf("drifted at once: %q", got)
		}
		if err := c.azure.PublishImage("2204gen2containerd", "202610.19.0"); err != nil {
			t.Fatal(err)
		}
		k.run(70 * time.Minute) // images are looked up every hour
		if got, want := k.drifted(), []string{"batch-9qmz4 ImageDrift", "web-r2d2c ImageDrift", "web-x7k2p ImageDrift"}; !slices.Equal(got, want) {
			t.Errorf("drifted for a newer image: %q, want %q", got, want)
		}
		if len(k.changes) > 0 {
			t.Errorf("changed in Azure, against the budget: %q", k.changes)
		}
	})
}

// drifted are the claims that have drifted, and why.
func (c *cluster) drifted() []string {
	c.t.Helper()
	list := &karpv1.NodeClaimList{}
	if err := c.api.List(c.t.Context(), list); err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for i := range list.Items {
		if kube.ConditionTrue(&list.Items[i], karpv1.ConditionTypeDrifted) {
			out = append(out, list.Items[i].Name+" "+list.Items[i].StatusConditions().Get(karpv1.ConditionTypeDrifted).Reason)
		}
	}
	return out
}

// A cluster whose hashes were made by an older formula is stamped again, and otherwise
// not changed.
//
// Rule TAKEOVER-2.
func TestOlderHashesAreStampedAnew(t *testing.T) {
	for name, older := range map[string][]string{
		"of classes": {`aksnodeclass-hash: "3145810534234257534"`, `aksnodeclass-hash: "17"`, "aksnodeclass-hash-version: v3", "aksnodeclass-hash-version: v2"},
		"of pools":   {`nodepool-hash: "16486776906958426975"`, `nodepool-hash: "17"`, "nodepool-hash-version: v3", "nodepool-hash-version: v2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := inherit(t, older...).start()
				k.run(time.Hour)
				stamps := 0
				for _, w := range k.writes {
					switch {
					case ownStatus(w):
					case w.verb == "patch" && strings.Contains(w.body, `-hash-version":"v3"`) && !strings.Contains(w.body, "spec"):
						stamps++
					default:
						t.Errorf("an unwanted write: %s", w)
					}
				}
				if got := k.drifted(); stamps < 4 || len(got) > 0 || len(k.changes) > 0 {
					t.Errorf("%d stamps, want one for each claim and what it is of; drifted %q; changed in Azure %q", stamps, got, k.changes)
				}
			})
		})
	}
}

// A node that was taken over ends like any other: drained, terminated with its interface and
// its disk, and nothing else with it.
//
// Rule TAKEOVER-3.
func TestAdoptedVMEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := inherit(t).start()
		k.run(time.Minute)
		claim := &karpv1.NodeClaim{}
		claim.Name = "batch-9qmz4"
		if err := k.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app-batch-9qmz4"}}); err != nil {
			t.Fatal(err)
		}
		if err := k.api.Delete(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		k.run(10 * time.Minute)
		if err := k.api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the claim is still there: %v", err)
		}
		left := k.everything()
		for what, lines := range left {
			if text := strings.Join(lines, "\n"); strings.Contains(text, "9qmz4") || !strings.Contains(text, "web-x7k2p") || !strings.Contains(text, "web-r2d2c") {
				t.Errorf("left of %s: %s", what, text)
			}
		}
	})
}

// A class changes its tags after karve started: VMs that were taken over get them in
// place, and lose those that the class had under Karpenter. Nothing drifts.
//
// Rule SETTING-1.
func TestAdoptedVMsAreRetagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := inherit(t).start()
		k.run(time.Minute)
		class := &v1beta1.AKSNodeClass{}
		if err := k.api.Get(t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
			t.Fatal(err)
		}
		class.Spec.Tags = map[string]string{"cost": "7"}
		if err := k.api.Update(t.Context(), class); err != nil {
			t.Fatal(err)
		}
		k.run(20 * time.Minute)
		for what, text := range map[string]string{
			"VMs":        k.ask(http.MethodGet, "/providers/Microsoft.Compute/virtualMachines", nil),
			"interfaces": k.ask(http.MethodGet, "/providers/Microsoft.Network/networkInterfaces", nil),
		} {
			if strings.Count(text, `"cost":"7"`) != 3 || strings.Contains(text, `"team":"a"`) || strings.Count(text, `"karpenter.azure.com_cluster":"karve"`) != 3 {
				t.Errorf("%s: %s", what, text)
			}
		}
		if got := k.drifted(); len(got) > 0 || len(k.changes) != 6 {
			t.Errorf("drifted %q; changed in Azure %q, want each VM and its interface once", got, k.changes)
		}
	})
}
