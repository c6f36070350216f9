// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"maps"
	"testing"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestNodeOfLaunch: the node of a launch has the labels that all its offerings share and pods look at,
// required or preferred. Its capacity is that of the largest, its allocatable that of the smallest.
func TestNodeOfLaunch(t *testing.T) {
	script, err := enginetest.Parse(`
type D2 cpu=2 mem=8Gi price=0.10 label:disk=ssd label:rack=a label:size=2 label:colour=red
type D4 cpu=4 mem=16Gi price=0.20 label:disk=ssd label:rack=a label:size=4 label:colour=red
pool p
pod chooses cpu=1 mem=1Gi require:disk=In:ssd require:size=In:2,4
pod spread cpu=1 mem=1Gi label:app=s spread=rack:1:soft
`)
	if err != nil {
		t.Fatal(err)
	}
	snapshot := script.Snapshot()
	s := newDrafts(snapshot)
	defer s.whatIf.End()
	l := schedule.Launch{Pool: "p"}
	for _, name := range []string{"D2", "D4"} {
		at := snapshot.PoolCatalogOf("p").Catalog.InstanceType(name).Offerings[0]
		l.Offerings = append(l.Offerings, offering.Ref{Type: name, Zone: at.Zone, CapacityType: at.CapacityType, Price: at.Price})
	}
	n := s.nodeOfLaunch(&l)
	want := map[string]string{"disk": "ssd", "rack": "a"}
	if !maps.Equal(n.Labels, want) {
		t.Errorf("it has the labels %v, want %v", n.Labels, want)
	}
	if n.Capacity["cpu"] != 4000 || n.Allocatable["cpu"] != 2000 {
		t.Errorf("it has %d milli-CPU, of which %d are allocatable; want 4000 and 2000", n.Capacity["cpu"], n.Allocatable["cpu"])
	}
}
