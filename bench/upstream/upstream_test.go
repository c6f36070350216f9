// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/karve-dev/karve/bench/scenario"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/kube"
)

// Both sides must be offered the same: room, places and prices.
func TestTypesAgree(t *testing.T) {
	azure, err := scenario.Azure(t.Context(), 200, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*scenario.Scenario{scenario.Diverse(5), azure} {
		theirs := InstanceTypes(s.Types)
		if len(theirs) != len(s.Types) {
			t.Fatalf("%s: %d types of ours, %d of theirs", s.Name, len(s.Types), len(theirs))
		}
		for i := range s.Types {
			agree(t, &s.Types[i], theirs[i])
		}
	}
}

func agree(t *testing.T, ours *offering.InstanceType, theirs *cloudprovider.InstanceType) {
	t.Helper()
	if diff := cmp.Diff(ours.Capacity.Sub(ours.Overhead), kube.Amounts(theirs.Allocatable())); diff != "" {
		t.Errorf("%s: allocatable (-ours +theirs):\n%s", ours.Name, diff)
	}
	if diff := cmp.Diff(ours.Capacity, kube.Amounts(theirs.Capacity)); diff != "" {
		t.Errorf("%s: capacity (-ours +theirs):\n%s", ours.Name, diff)
	}
	if len(ours.Offerings) != len(theirs.Offerings) {
		t.Fatalf("%s: %d offerings of ours, %d of theirs", ours.Name, len(ours.Offerings), len(theirs.Offerings))
	}
	for i, o := range ours.Offerings {
		w := theirs.Offerings[i]
		if w.Zone() != o.Zone || w.CapacityType() != o.CapacityType || w.Price != o.Price.USD() || w.Available != (o.Unavailable == "") {
			t.Errorf("%s: offering %d: ours %+v, theirs %+v", ours.Name, i, o, w)
		}
	}
	for key, values := range ours.Labels {
		for _, v := range values {
			if r := theirs.Requirements.Get(key); !r.Has(v) {
				t.Errorf("%s: label %s: ours %v, theirs %v", ours.Name, key, values, r)
			}
		}
	}
}

// The cluster state must know every node with what its pods use.
func TestUpstreamSeesTheExistingNodes(t *testing.T) {
	s := scenario.Existing(6, 60, 10)
	c, err := New(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	nodes := c.Batch().nodes
	if len(nodes) != 6 {
		t.Fatalf("%d nodes, want 6", len(nodes))
	}
	for _, n := range nodes {
		free, whole := n.Available(), n.Allocatable()
		if !n.Initialized() || !n.Managed() || free.Cpu().Cmp(*whole.Cpu()) >= 0 {
			t.Errorf("node %s: initialized %v, managed %v, %v of %v free", n.Name(), n.Initialized(), n.Managed(), free.Cpu(), whole.Cpu())
		}
	}
}

// Upstream must do what it is known for, or the comparison means nothing: one
// node per pod where preferences count, few where they do not.
func TestUpstreamPlacesEverything(t *testing.T) {
	for _, s := range []*scenario.Scenario{scenario.Diverse(100), scenario.Existing(6, 60, 50)} {
		c, err := New(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Batch().Decide()
		if err != nil {
			t.Fatal(err)
		}
		if len(r.PodErrors) > 0 {
			t.Errorf("%s: %d pods left: %v", s.Name, len(r.PodErrors), first(r.PodErrors))
		}
		if price, err := USDPerHour(r); err != nil || price <= 0 {
			t.Errorf("%s: price %v, %v", s.Name, price, err)
		}
	}
}

func first(errs map[*corev1.Pod]error) error {
	for _, err := range errs {
		return err
	}
	return nil
}

// Both sides choose among more than a thousand sizes in the real region: every one
// is available to some NodePool.
func TestPoolsCanLaunchAThousandSizes(t *testing.T) {
	s, err := scenario.Azure(t.Context(), 200, false)
	if err != nil {
		t.Fatal(err)
	}
	launchable := 0
	for _, it := range InstanceTypes(s.Types) {
		if slices.ContainsFunc(s.Pools, func(p *karpv1.NodePool) bool { return canLaunch(p, it) }) {
			launchable++
		}
	}
	t.Logf("%d of %d sizes are available to some NodePool", launchable, len(s.Types))
	if launchable < 1000 {
		t.Errorf("%d of %d sizes are available to some NodePool, want 1,000 at least", launchable, len(s.Types))
	}
}
