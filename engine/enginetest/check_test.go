// SPDX-License-Identifier: Apache-2.0

package enginetest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
)

// shop is the instance types and pools of the hand-made plans below.
const shop = `type D4 cpu=4 mem=16Gi price=0.20 zones=1,2,3 attach:disk=2
type E4 cpu=4 mem=32Gi price=0.30 zones=1,2,3
pool all
`

// TestCheck tests the checker itself: each plan is made by hand, and either right or wrong in
// one way.
func TestCheck(t *testing.T) {
	for _, tc := range []struct{ name, world, plan, want string }{
		{"resources", "pods w x5 cpu=1", "buy D4 1: w-1 w-2 w-3 w-4 w-5", "pods ask for 5000 of cpu, there is room for 4000"},
		{"twice", "pods w x1 cpu=1", "buy D4 1: w-1 w-1", "appears 2 times"},
		{"not at all", "pods w x1 cpu=1", "", "appears 0 times"},

		{"spread evenly", "pods w x3 cpu=1 label:a=w spread=zone:1", "buy D4 1: w-1; buy D4 2: w-2; buy D4 3: w-3", ""},
		{"spread within skew", "pods w x3 cpu=1 label:a=w spread=zone:1", "buy D4 1: w-1 w-2; buy D4 2: w-3", ""},
		{"spread too far", "pods w x4 cpu=1 label:a=w spread=zone:1", "buy D4 1: w-1 w-2 w-3; buy D4 2: w-4", "spread by 2"},
		{"spread over other choices", "pods w x4 cpu=1 label:a=w spread=zone:1", "buy D4 1|2: w-1 w-2; buy D4 2: w-3 w-4; buy D4 1:", "instead of its first choice"},
		{"spread with too few domains", "pods w x2 cpu=1 label:a=w spread=zone:1:min=2", "buy D4 1: w-1 w-2", "spread by 2"},
		{"spread counts who runs", "node n cpu=4 zone=1\npod old cpu=1 label:a=w on=n\npods w x1 cpu=1 label:a=w spread=zone:1", "on n: w-1; buy D4 2:", "spread by 2"},
		{"spread forgets who terminates", "node n cpu=4 zone=1\npod old cpu=1 label:a=w on=n terminating\npods w x1 cpu=1 label:a=w spread=zone:1", "on n: w-1; buy D4 2:", ""},
		{"spread counts whose successor comes", "node n cpu=4 zone=1 leaving\npod old cpu=1 label:a=w on=n terminating\npods w x2 cpu=1 label:a=w spread=zone:1", "buy D4 1: old; buy D4 2: w-1 w-2", ""},
		{"spread over nodes out of reach", "node n cpu=4 zone=1\npods w x2 cpu=1 label:a=w spread=zone:1 need:zone=In:2", "buy D4 2: w-1 w-2", ""},
		{"spread over nodes out of reach that count", "node n cpu=4 zone=1\npods w x2 cpu=1 label:a=w spread=zone:1:ignore-affinity need:zone=In:2", "buy D4 2: w-1 w-2", "spread by 2"},
		{"spread past taints that count", "node n cpu=4 zone=1 taint:k=v:NoSchedule\npods w x2 cpu=1 label:a=w spread=zone:1", "buy D4 2: w-1 w-2", "spread by 2"},
		{"spread past taints", "node n cpu=4 zone=1 taint:k=v:NoSchedule\npods w x2 cpu=1 label:a=w spread=zone:1:honor-taints", "buy D4 2: w-1 w-2", ""},
		{"spread needs the label", "node n cpu=4\npods w x1 cpu=1 label:a=w spread=zone:1", "on n: w-1", "label there: false"},
		{"soft spread", "pods w x4 cpu=1 label:a=w spread=zone:1:soft", "buy D4 1: w-1 w-2 w-3; buy D4 2: w-4", ""},
		{"spread of others", "pods w x3 cpu=1 label:a=w spread=zone:1:a=x", "buy D4 1: w-1 w-2 w-3; buy D4 2:", ""},

		{"spread in one order only", "pods v x3 cpu=1 label:a=w spread=zone:2\npods w x2 cpu=1 label:a=w spread=type:2\npod old cpu=1 label:a=w\npods x x13 cpu=1", "buy D4 1: w-1 w-2 old; buy D4 2: v-1 v-2 v-3; buy E4 1: x-1; buy E4 1: x-2; buy E4 1: x-3; buy E4 1: x-4; buy E4 1: x-5; buy E4 1: x-6; buy E4 1: x-7; buy E4 1: x-8; buy E4 1: x-9; buy E4 1: x-10; buy E4 1: x-11; buy E4 1: x-12; buy E4 1: x-13", ""},

		{"spread of one workload before another's", "pods w x11 cpu=1 label:a=w spread=zone:2:min=2:t=t\npods v x5 priority=10 spread=zone:1:min=3:a=w\npod old", "buy D4 1: v-1 v-2 v-3 v-4 v-5 w-1 old; buy D4 1: w-2; buy D4 1: w-3; buy D4 1: w-4; buy D4 1: w-5; buy D4 1: w-6; buy D4 1: w-7; buy D4 1: w-8; buy D4 1: w-9; buy D4 1: w-10; buy D4 1: w-11", ""},

		{"near itself", "pods w x3 cpu=2 label:a=w near=zone", "buy D4 1: w-1 w-2; buy D4 1: w-3", ""},
		{"near itself but apart", "pods w x3 cpu=2 label:a=w near=zone", "buy D4 1: w-1 w-2; buy D4 2: w-3", "not near"},
		{"near nobody", "pods w x1 cpu=1 label:a=w near=zone:a=x", "buy D4 1: w-1", "not near"},
		{"near who comes along", "pods w x1 cpu=1 near=host:a=x\npods x x1 cpu=1 label:a=x", "buy D4 1: w-1 x-1", ""},
		{"near who runs elsewhere", "node n cpu=1 zone=2\npod x cpu=1 label:a=x on=n\npods w x1 cpu=1 near=zone:a=x", "buy D4 1: w-1", "not near"},
		{"near by namespace", "namespace p label:env=prod\nnode n cpu=1 zone=2\npod x cpu=1 label:a=x on=n namespace=p\npods w x1 cpu=1 near=zone:a=x:where=env=prod", "buy D4 2: w-1", ""},
		{"near in another namespace", "node n cpu=1 zone=2\npod x cpu=1 label:a=x on=n namespace=p\npods w x1 cpu=1 near=zone:a=x", "buy D4 2: w-1", "not near"},
		{"near counts who terminates", "node n cpu=1 zone=2\npod x cpu=1 label:a=x on=n terminating\npods w x1 cpu=1 near=zone:a=x", "buy D4 2: w-1", ""},

		{"apart", "pods w x2 cpu=1 label:a=w apart=host", "buy D4 1: w-1; buy D4 1: w-2", ""},
		{"apart together", "pods w x2 cpu=1 label:a=w apart=host", "buy D4 1: w-1 w-2", "does not stand"},
		{"apart by zone over choices", "pods w x2 cpu=1 label:a=w apart=zone", "buy D4 1|2: w-1; buy D4 2: w-2", "instead of its first choice"},
		{"apart the other way", "node n cpu=4 zone=1\npod x cpu=1 on=n apart=zone:a=w\npods w x1 cpu=1 label:a=w", "buy D4 1: w-1", "does not stand"},
		{"apart merely preferred", "pods w x2 cpu=1 label:a=w apart~50=host", "buy D4 1: w-1 w-2", ""},

		{"ports", "pods w x2 cpu=1 port=TCP/80", "buy D4 1: w-1 w-2", "both take port"},
		{"ports by address", "pod a cpu=1 port=TCP/127.0.0.1:80\npod b cpu=1 port=TCP/10.0.0.1:80", "buy D4 1: a b", ""},
		{"ports everywhere", "pod a cpu=1 port=TCP/127.0.0.1:80\npod b cpu=1 port=TCP/0.0.0.0:80", "buy D4 1: a b", "both take port"},
		{"ports by protocol", "pod a cpu=1 port=TCP/80\npod b cpu=1 port=UDP/80", "buy D4 1: a b", ""},
		{"ports of who runs", "node n cpu=4\npod a cpu=1 port=TCP/80 on=n\npod b cpu=1 port=TCP/80", "on n: b", "both take port"},

		{"attached", "pods w x2 cpu=1 volume=v-#:disk", "buy D4 1: w-1 w-2", ""},
		{"too many attached", "pods w x3 cpu=1 volume=v-#:disk", "buy D4 1: w-1 w-2 w-3", "3 volumes of disk, 2 can be attached"},
		{"attached once", "pods w x3 cpu=1 volume=v:disk:shared", "buy D4 1: w-1 w-2 w-3", ""},
		{"attached without a limit", "pods w x3 cpu=1 volume=v-#:disk", "buy E4 1: w-1 w-2 w-3", ""},
		{"volume elsewhere", "pods w x1 cpu=1 volume=v:disk volume-in:zone=In:2 volume-in:zone=In:3", "buy D4 1: w-1", "cannot be mounted there"},
		{"volume here", "pods w x1 cpu=1 volume=v:disk volume-in:zone=In:2 volume-in:zone=In:3", "buy D4 3: w-1", ""},

		{"stuck", "node n cpu=4 stuck\npods w x1 cpu=1", "on n: w-1", "takes none"},
		{"leaving", "node n cpu=4 leaving\npods w x1 cpu=1", "on n: w-1", "takes none"},
		{"left out", "node n cpu=4\npods w x1 cpu=1", "leave w-1", "would take it"},
		{"left out though a machine would do", "pods w x2 cpu=1 label:a=w apart=host volume=v:disk:shared", "buy D4 1: w-1; leave w-2", "pool all could buy it a machine"},
		{"left out for spare room", "node n cpu=1\npods w x1 cpu=1\npods spare x1 cpu=1 virtual", "on n: spare-1; leave w-1", "would take it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, err := enginetest.Parse(shop + tc.world)
			if err != nil {
				t.Fatal(err)
			}
			err = enginetest.Check(script, byHand(t, script, tc.plan))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestCheckPools tests rules of pools rather than of pods.
func TestCheckPools(t *testing.T) {
	for _, tc := range []struct{ name, world, plan, want string }{
		{"static", "type D4 cpu=4 price=1\npool all static\npods w x1 cpu=1", "buy D4 1: w-1", "static"},
		{"limits", "type D4 cpu=4 price=1\npool all limit:cpu=7\npods w x2 cpu=4", "buy D4 1: w-1; buy D4 1: w-2", "8000 of cpu, limit 7000"},
		{"variety", "type D4 cpu=4 price=1 zones=1,2\npool all variety:zone=2\npods w x1 cpu=4", "buy D4 1: w-1", "too little variety of [topology.kubernetes.io/zone] for its pool"},
		{"enough variety", "type D4 cpu=4 price=1 zones=1,2\npool all variety:zone=2\npods w x1 cpu=4", "buy D4 1|2: w-1", ""},
		{"reserved", "type D4 cpu=4 reserved=0.01/r/1\npool all\npods w x2 cpu=4", "buy D4 1 reserved: w-1; buy D4 1 reserved: w-2", "budget reservation/r"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, err := enginetest.Parse(tc.world)
			if err != nil {
				t.Fatal(err)
			}
			err = enginetest.Check(script, byHand(t, script, tc.plan))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// byHand reads `on NODE: pods; buy TYPE ZONE|ZONE [capacity type]: pods; leave pods`.
func byHand(t *testing.T, s *enginetest.Script, text string) schedule.Plan {
	t.Helper()
	var p schedule.Plan
	for _, act := range strings.Split(text, ";") {
		head, names, _ := strings.Cut(act, ":")
		f := strings.Fields(head)
		switch {
		case len(f) == 0:
		case f[0] == "on":
			p.Nominations = append(p.Nominations, schedule.Nomination{Node: f[1], Pods: refs(strings.Fields(names))})
		case f[0] == "leave":
			p.Unplaced = append(p.Unplaced, schedule.Unplaced{Pods: refs(f[1:]), Because: reason.Limits})
		case f[0] == "buy":
			p.Launches = append(p.Launches, schedule.Launch{Pool: "all", Offerings: choices(t, s, f[1:]), Pods: refs(strings.Fields(names))})
		default:
			t.Fatalf("%q is no act", act)
		}
	}
	return p
}

func choices(t *testing.T, s *enginetest.Script, f []string) []offering.Ref {
	var out []offering.Ref
	ct := offering.OnDemand
	if len(f) > 2 {
		ct = f[2]
	}
	for _, typ := range s.Types {
		for _, zone := range strings.Split(f[1], "|") {
			for _, o := range typ.Offerings {
				if typ.Name == f[0] && o.Zone == zone && o.CapacityType == ct {
					out = append(out, offering.Ref{Type: typ.Name, Zone: zone, CapacityType: ct, Price: o.Price})
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("%v is not on sale", f)
	}
	return out
}

func refs(names []string) []cluster.PodRef {
	var out []cluster.PodRef
	for _, n := range names {
		out = append(out, cluster.PodRef{Namespace: "default", Name: n, UID: n})
	}
	return out
}

// TestFullWorldsAreFull checks that every kind of rule that RandomFull mixes in occurs often
// enough to affect plans.
func TestFullWorldsAreFull(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		s := enginetest.RandomFull(seed, 1+int(seed%40))
		note := func(what string, there bool) {
			if there {
				seen[what]++
			}
		}
		for _, p := range s.Pods {
			where := "pending"
			if p.Node != "" {
				where = "bound"
			}
			for _, sp := range p.Spreads {
				note(fmt.Sprintf("%s spread over %s, soft %v", where, sp.Key, sp.Soft), true)
			}
			note(where+" near", len(p.Affinity) > 0)
			note(where+" apart", len(p.AntiAffinity) > 0)
			note(where+" port", len(p.Ports) > 0)
			note(where+" volume", len(p.Volumes) > 0)
			note("virtual", p.Virtual)
			note("terminating", p.Terminating)
			note("preference", len(p.Preferred) > 0)
		}
		for _, n := range s.Nodes {
			note("stuck", n.Unschedulable)
			note("leaving", n.Leaving)
			note("unmanaged", n.Pool == "")
			note("unregistered", n.Name == "")
		}
		for _, p := range s.Pools {
			note("static", p.Static)
			for _, r := range p.Requirements {
				note("variety", r.MinValues > 0)
			}
		}
		for _, typ := range s.Types {
			note("attach limit", typ.Capacity[quantity.Attachable+"disk.csi.example.com"] > 0)
			for _, o := range typ.Offerings {
				note("reserved", o.CapacityType == offering.Reserved)
			}
		}
	}
	want := []string{"bound near", "bound apart", "bound port", "bound volume", "pending near", "pending apart", "pending port", "pending volume", "virtual", "terminating", "preference",
		"stuck", "leaving", "unmanaged", "unregistered", "static", "variety", "attach limit", "reserved"}
	for _, key := range []string{cluster.LabelZone, cluster.LabelHostname, "team", "arch", cluster.LabelCapacityType} {
		want = append(want, fmt.Sprintf("pending spread over %s, soft false", key), fmt.Sprintf("pending spread over %s, soft true", key))
	}
	for _, what := range want {
		if seen[what] < 10 {
			t.Errorf("%s: %d times in 300 worlds", what, seen[what])
		}
	}
}
