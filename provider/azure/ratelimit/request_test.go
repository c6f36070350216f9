// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCallOf(t *testing.T) {
	const vms = "rg/providers/Microsoft.Compute/virtualMachines"
	const aks = "rg/providers/Microsoft.ContainerService/managedClusters"
	for _, test := range []struct{ request, want string }{
		{"PUT " + vms + "/AKS-a", "aks-a arm-writes vm-put"},
		{"PATCH " + vms + "/a", "a arm-writes vm-update"},
		{"DELETE " + vms + "/a", "a arm-deletes vm-delete"},
		{"GET " + vms + "/a", "a arm-reads vm-get"},
		{"GET " + vms + "/a/instanceView", "a arm-reads vm-get"},
		{"POST " + vms + "/a/deallocate", "a arm-writes vm-delete"},
		{"POST " + vms + "/a/simulateEviction", "a arm-writes vm-delete"},
		{"POST " + vms + "/a/start", "a arm-writes vm-update"},
		{"PUT " + vms + "/a/extensions/e", "a arm-writes vm-update"},
		{"DELETE " + vms + "/a/extensions/e", "a arm-deletes vm-update"},
		{"GET " + vms + "/a/extensions/e", "a arm-reads vm-get"},
		{"GET " + vms, "virtualmachines arm-reads vm-list"},
		{"GET sub/providers/Microsoft.Compute/locations/eastus/operations/op", "op arm-reads operation-get"},
		{"GET sub/providers/Microsoft.Compute/locations/eastus/usages", "usages arm-reads"},
		{"GET sub/providers/Microsoft.Compute/skus", "skus arm-reads"},
		{"DELETE rg/providers/Microsoft.Network/networkInterfaces/n", "n arm-deletes"},
		{"PUT " + aks + "/c", "c arm-writes aks-put"},
		{"PUT " + aks + "/c/agentPools/p", "p arm-writes aks-put"},
		{"PUT " + aks + "/c/agentPools/p/machines/m", "m arm-writes aks"},
		{"POST " + aks + "/c/agentPools/p/deleteMachines", "deletemachines arm-writes aks"},
		{"GET " + aks, "managedclusters arm-reads aks-list"},
		{"GET sub/providers/Microsoft.ContainerService/locations/eastus/operations/op", "op arm-reads aks-operation"},
		{"GET sub/resourceGroups/g", "g arm-reads"},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		path = strings.NewReplacer("rg/", "/subscriptions/s/resourceGroups/g/", "sub/", "/subscriptions/s/").Replace(path)
		c := callOf(httptest.NewRequest(method, path, nil))
		got := c.key
		for _, class := range c.classes {
			got += " " + string(class)
		}
		if got != test.want {
			t.Errorf("%s falls under %q, want %q", test.request, got, test.want)
		}
	}
}

// Rule REQUEST-1: the limits are the published ones.
func TestLimits(t *testing.T) {
	got := map[Class]limits{}
	for _, c := range []Class{ARMReads, ARMWrites, ARMDeletes, PutVM, UpdateVM, DeleteVM, GetVM, ListVM, GetOperation, AKS, AKSPut, AKSList, AKSOperation} {
		got[c] = limitsOf(c)
	}
	vm := limits{limit{1500, 500}, limit{12, 4}}
	want := map[Class]limits{
		ARMReads: {all: limit{250, 1500}}, ARMWrites: {all: limit{200, 600}}, ARMDeletes: {all: limit{200, 600}},
		PutVM: vm, UpdateVM: vm, DeleteVM: vm,
		GetVM: {limit{24000, 8000}, limit{36, 12}}, ListVM: {all: limit{900, 300}}, GetOperation: {limit{15000, 5000}, limit{45, 15}},
		AKS: {all: limit{60, 60}}, AKSPut: {each: limit{20, 1}}, AKSList: {all: limit{500, 60}}, AKSOperation: {all: limit{200, 120}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(limits{}, limit{})); diff != "" {
		t.Error(diff)
	}
}
