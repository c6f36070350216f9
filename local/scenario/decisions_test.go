// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/local"
)

func TestDecisionsComeFromTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "karve.log")
	log := `{"message":"found provisionable pod(s)","pods":3}
{"message":"created nodeclaim","nodeclaim":"general-a","pods":3,"offerings":12,"instance-type":"Standard_D4s_v5","price":0.219,"list-price":0.192,"runner-up":"Standard_D4as_v5","runner-up-price":0.2}
panic: not JSON
{"message":"created nodeclaim","nodecl`
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readDecisions(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]decision{"general-a": {
		Claim: "general-a", Pods: 3, Offerings: 12, Type: "Standard_D4s_v5", Price: 0.219, ListPrice: 0.192, RunnerUp: "Standard_D4as_v5", RunnerUpPrice: 0.2,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// The bill counts the OS disks that Azure creates, as karve's prices do.
func TestBillCountsDisks(t *testing.T) {
	prices, err := newPriceList("eastus")
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[string]float64{"Standard_D4s_v5": 0.192 + 19.71/730, "Standard_D4_v5": 0.192 + 5.888/730, "Standard_D4ds_v5": 0.226, "Standard_X1": 0} {
		if got := prices.hourly(local.Claim{Type: size, CapacityType: "on-demand"}); math.Abs(got-want) > 1e-9 {
			t.Errorf("a node of %s costs %v, want %v", size, got, want)
		}
	}
}

func TestDecisionTable(t *testing.T) {
	prices, err := newPriceList("eastus")
	if err != nil {
		t.Fatal(err)
	}
	d := decision{
		Pool: "general", Type: "Standard_D4s_v5", CapacityType: "on-demand", Price: 0.219, ListPrice: 0.192,
		Pods: 7, Offerings: 12, RunnerUp: "Standard_D4as_v5", RunnerUpPrice: 0.2,
	}
	gpu := decision{Pool: "gpu", Type: "Standard_NC4as_T4_v3", CapacityType: "on-demand", Price: 0.526, Pods: 1, Offerings: 1}
	text := decisionTable(map[string]decision{"a": d, "b": d, "c": gpu}, prices)
	for _, want := range []string{"2 ×", "4 vCPU, 16 GiB", "14 pods", "0.2190    0.1920", "cheapest of 12 offerings that fit; next: Standard_D4as_v5 at $0.2000", "1 GPU"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
