// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/quantity"
)

// Pools of one catalog share what pods can use of it only if they count the same of burstable
// types. What a node reports is the same for all of them.
//
// Rule CATALOG-5.
func TestSustainedCPU(t *testing.T) {
	script, err := enginetest.Parse(`type B4 cpu=4 mem=16Gi price=0.1 overhead-cpu=100m sustained-cpu=1600m label:family=B label:series=Bs named-by=node.kubernetes.io/instance-type|family|series
type D4 cpu=4 mem=16Gi price=0.2 label:family=D named-by=node.kubernetes.io/instance-type|family|series
pool plain
pool full full-cpu
pool by-family require:family=In:D|B
pool by-series require:series=In:Bs
pool by-type require:node.kubernetes.io/instance-type=In:B4|D4
pool by-label label:family=B
pool other-family require:family=NotIn:E
pool exists require:family=Exists
pool other-type require:node.kubernetes.io/instance-type=In:D4
daemon agent cpu=200m mem=100Mi
pod web cpu=1
`)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := script.Snapshot()
	want := map[string]int64{
		"plain": 1300, "full": 3700, "by-family": 3700, "by-series": 3700, "by-type": 3700, "by-label": 3700,
		"other-family": 1300, "exists": 1300, "other-type": 1300,
	}
	cpu := func(v quantity.Vector) int64 { return snapshot.Resources.Amounts(v)[quantity.NameCPU] }
	catalogs := map[string]*cluster.PoolCatalog{}
	for _, c := range snapshot.PoolCatalogs {
		catalogs[c.Pool.Name] = c
		for i, o := range c.Catalog.Offerings {
			b4 := c.Catalog.Types[o.Type].Name == "B4"
			if got := cpu(c.Allocatable[i]); b4 && got != want[c.Pool.Name] {
				t.Errorf("pool %s counts %d millicores of B4, want %d", c.Pool.Name, got, want[c.Pool.Name])
			}
			if got := cpu(c.Allocatable[i]); !b4 && got != 3800 {
				t.Errorf("pool %s counts %d millicores of D4", c.Pool.Name, got)
			}
			if got := cpu(c.Room(i)); b4 && got != 3700 {
				t.Errorf("pool %s: a node of B4 has %d millicores for pods", c.Pool.Name, got)
			}
		}
	}
	if len(catalogs) != len(want) {
		t.Fatalf("%d pools", len(catalogs))
	}
	share := func(a, b string) bool { return &catalogs[a].Allocatable[0] == &catalogs[b].Allocatable[0] }
	if !share("plain", "exists") || !share("full", "by-family") || share("plain", "full") {
		t.Error("pools do not share what they count alike, or share what they do not")
	}
}
