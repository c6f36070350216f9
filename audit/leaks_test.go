// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"
	"testing"
	"time"

	opstatus "github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nicFor(claim string, tags map[string]string) Resource {
	return Resource{ID: "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/networkInterfaces/aks-" + claim, Kind: NIC, Tags: tags}
}

// S1: each VM, network interface and disk has its NodeClaim.
func TestLeaks(t *testing.T) {
	run(t, "S1", map[string]func(h *history){
		"a VM with its NodeClaim": func(h *history) {
			c := claimOf("a1", "a", "")
			h.put(launched(c, "cpu=4"))
			h.list(2*time.Hour, vmFor(c))
		},
		"a VM without one [S1]": func(h *history) {
			h.list(31*time.Minute, vmFor(claimOf("a1", "a", "")))
		},
		"a VM without one whose Node is drained, as karve says": func(h *history) {
			c := initialized(claimOf("a1", "a", ""), "cpu=4")
			n := nodeOf(c)
			h.put(c, n)
			h.remove(c)
			for range 5 {
				h.event(n, eventUnclaimed)
				h.list(10*time.Minute, vmFor(c))
			}
		},
		"not for long": func(h *history) {
			h.list(29*time.Minute, vmFor(claimOf("a1", "a", "")))
			h.list(time.Hour)
		},
		"lists that are not had prove nothing": func(h *history) {
			h.cloud(vmFor(claimOf("a1", "a", "")))
			h.wait(time.Hour)
		},
		"a network interface after its NodeClaim [S1]": func(h *history) { // Azure/karpenter-provider-azure 67
			c := claimOf("a1", "a", "")
			h.put(c)
			nic := nicFor("a1", map[string]string{tagCluster: "c", tagClaimUID: "uid-a1"})
			h.list(time.Hour, vmFor(c), nic)
			h.remove(c)
			h.list(31*time.Minute, nic)
		},
		"once each, however long [S1]": func(h *history) {
			h.list(3*time.Hour, vmFor(claimOf("a1", "a", "")))
		},
		"resources of others": func(h *history) {
			h.list(time.Hour, nicFor("a1", nil), nicFor("a2", map[string]string{"owner": "me"}), nicFor("a3", map[string]string{tagClaimUID: "x"}))
		},
		"keys of tags in another case [S1]": func(h *history) {
			h.list(time.Hour, nicFor("a1", map[string]string{strings.ToUpper(tagCluster): "c", "Karve.dev_Claim-UID": "uid"}))
		},
		"a VM of Karpenter's without a NodeClaim [S1]": func(h *history) {
			vm := vmFor(claimOf("a1", "a", ""))
			vm.Tags = map[string]string{tagKarpenterCluster: "c", tagNodePool: "a"}
			h.list(time.Hour, vm)
		},
		"karve says itself that NodeClaims are missing": func(h *history) {
			p := poolOf("a", "")
			p.Status.Conditions = []opstatus.Condition{{Type: conditionClaimed, Status: metav1.ConditionFalse, Reason: "OrphanedInstances"}}
			h.put(p)
			h.list(3*time.Hour, vmFor(claimOf("a1", "a", "")))
		},
		"the cloud failed meanwhile": func(h *history) {
			h.list(29*time.Minute, vmFor(claimOf("a1", "a", "")))
			h.a.Disturbed(h.now)
			h.list(29*time.Minute, vmFor(claimOf("a1", "a", "")))
		},
	})
}

func TestLeaksOfOneCluster(t *testing.T) {
	h := newHistory(t, Settings{Cluster: "other"})
	h.list(time.Hour, vmFor(claimOf("a1", "a", "")))
	h.want()
}

// S3: a NodeClaim has one VM ever.
func TestOneVM(t *testing.T) {
	c := claimOf("a1", "a", "")
	second := vmFor(c)
	second.ID += "-again"
	run(t, "S3", map[string]func(h *history){
		"listed often": func(h *history) {
			h.put(c)
			h.list(time.Hour, vmFor(c))
		},
		"two at once [S3]": func(h *history) { // kubernetes-sigs/karpenter 1448
			h.put(c)
			h.cloud(vmFor(c), second)
		},
		"one after the other [S3]": func(h *history) {
			h.put(c)
			h.cloud(vmFor(c))
			h.wait(time.Minute)
			h.cloud()
			h.wait(time.Minute)
			h.cloud(second)
		},
		"an ID in another case": func(h *history) {
			h.put(c)
			other := vmFor(c)
			other.ID = strings.ToUpper(other.ID)
			h.cloud(vmFor(c))
			h.cloud(other)
		},
	})
}

// S4: NodeClaims and provider IDs belong together one to one.
func TestPairs(t *testing.T) {
	run(t, "S4", map[string]func(h *history){
		"one each": func(h *history) {
			h.put(launched(claimOf("a1", "a", ""), "cpu=4"), launched(claimOf("a2", "a", ""), "cpu=4"))
		},
		"a second provider ID [S4]": func(h *history) {
			c := launched(claimOf("a1", "a", ""), "cpu=4")
			h.put(c)
			c.Status.ProviderID = "azure://" + vmID("a9")
			h.put(c)
		},
		"the same in another case": func(h *history) {
			c := launched(claimOf("a1", "a", ""), "cpu=4")
			h.put(c)
			c.Status.ProviderID = "azure://" + strings.ToUpper(vmID("a1"))
			h.put(c)
		},
		"two NodeClaims with one [S4]": func(h *history) {
			a, b := launched(claimOf("a1", "a", ""), "cpu=4"), launched(claimOf("a2", "a", ""), "cpu=4")
			b.Status.ProviderID = a.Status.ProviderID
			h.put(a, b)
			h.wait(time.Second)
		},
		"one after the other [S4]": func(h *history) { // cloudpilot-ai/karpenter-provider-gcp 242
			a, b := launched(claimOf("a1", "a", ""), "cpu=4"), launched(claimOf("a2", "a", ""), "cpu=4")
			b.Status.ProviderID = a.Status.ProviderID
			h.put(a)
			h.remove(a)
			h.put(b)
		},
		"a NodeClaim restored under its name": func(h *history) {
			a := launched(claimOf("a1", "a", ""), "cpu=4")
			h.put(a)
			h.remove(a)
			restored := a.DeepCopy()
			restored.UID = "another"
			h.put(restored)
		},
	})
}
