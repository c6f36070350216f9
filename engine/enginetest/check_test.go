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

// catalog is the instance types and pools of the hand-made plans below.
const catalog = `type D4 cpu=4 mem=16Gi price=0.20 zones=1,2,3 attach:disk=2
type E4 cpu=4 mem=32Gi price=0.30 zones=1,2,3
pool all
`

// TestCheck tests the checker itself: each plan is made by hand, and either right or wrong in
// one way.
func TestCheck(t *testing.T) {
	for _, tc := range []struct{ name, script, plan, want string }{
		{"resources", "pods w x5 cpu=1", "launch D4 1: w-1 w-2 w-3 w-4 w-5", "pods ask for 5000 of cpu, there is room for 4000"},
		{"twice", "pods w x1 cpu=1", "launch D4 1: w-1 w-1", "appears 2 times"},
		{"not at all", "pods w x1 cpu=1", "", "appears 0 times"},

		{"spread evenly", "pods w x3 cpu=1 label:a=w spread=zone:1", "launch D4 1: w-1; launch D4 2: w-2; launch D4 3: w-3", ""},
		{"spread within skew", "pods w x3 cpu=1 label:a=w spread=zone:1", "launch D4 1: w-1 w-2; launch D4 2: w-3", ""},
		{"spread too far", "pods w x4 cpu=1 label:a=w spread=zone:1", "launch D4 1: w-1 w-2 w-3; launch D4 2: w-4", "spread by 2"},
		{"spread over other choices", "pods w x4 cpu=1 label:a=w spread=zone:1", "launch D4 1|2: w-1 w-2; launch D4 2: w-3 w-4; launch D4 1:", "instead of its first choice"},
		{"spread with too few domains", "pods w x2 cpu=1 label:a=w spread=zone:1:min=2", "launch D4 1: w-1 w-2", "spread by 2"},
		{"spread counts running pods", "node n cpu=4 zone=1\npod old cpu=1 label:a=w on=n\npods w x1 cpu=1 label:a=w spread=zone:1", "on n: w-1; launch D4 2:", "spread by 2"},
		{"spread does not count terminating pods", "node n cpu=4 zone=1\npod old cpu=1 label:a=w on=n terminating\npods w x1 cpu=1 label:a=w spread=zone:1", "on n: w-1; launch D4 2:", ""},
		{"spread counts placed replacement pods", "node n cpu=4 zone=1 leaving\npod old cpu=1 label:a=w on=n terminating\npods w x2 cpu=1 label:a=w spread=zone:1", "launch D4 1: old; launch D4 2: w-1 w-2", ""},
		{"spread over nodes that its affinity excludes", "node n cpu=4 zone=1\npods w x2 cpu=1 label:a=w spread=zone:1 require:zone=In:2", "launch D4 2: w-1 w-2", ""},
		{"spread over nodes that its affinity excludes that count", "node n cpu=4 zone=1\npods w x2 cpu=1 label:a=w spread=zone:1:ignore-affinity require:zone=In:2", "launch D4 2: w-1 w-2", "spread by 2"},
		{"spread past taints that count", "node n cpu=4 zone=1 taint:k=v:NoSchedule\npods w x2 cpu=1 label:a=w spread=zone:1", "launch D4 2: w-1 w-2", "spread by 2"},
		{"spread past taints", "node n cpu=4 zone=1 taint:k=v:NoSchedule\npods w x2 cpu=1 label:a=w spread=zone:1:honor-taints", "launch D4 2: w-1 w-2", ""},
		{"spread needs the label", "node n cpu=4\npods w x1 cpu=1 label:a=w spread=zone:1", "on n: w-1", "label there: false"},
		{"soft spread", "pods w x4 cpu=1 label:a=w spread=zone:1:soft", "launch D4 1: w-1 w-2 w-3; launch D4 2: w-4", ""},
		{"spread of others", "pods w x3 cpu=1 label:a=w spread=zone:1:a=x", "launch D4 1: w-1 w-2 w-3; launch D4 2:", ""},

		{"spread in one order only", "pods v x3 cpu=1 label:a=w spread=zone:2\npods w x2 cpu=1 label:a=w spread=type:2\npod old cpu=1 label:a=w\npods x x13 cpu=1", "launch D4 1: w-1 w-2 old; launch D4 2: v-1 v-2 v-3; launch E4 1: x-1; launch E4 1: x-2; launch E4 1: x-3; launch E4 1: x-4; launch E4 1: x-5; launch E4 1: x-6; launch E4 1: x-7; launch E4 1: x-8; launch E4 1: x-9; launch E4 1: x-10; launch E4 1: x-11; launch E4 1: x-12; launch E4 1: x-13", ""},

		{"spread of one workload before another's", "pods w x11 cpu=1 label:a=w spread=zone:2:min=2:t=t\npods v x5 priority=10 spread=zone:1:min=3:a=w\npod old", "launch D4 1: v-1 v-2 v-3 v-4 v-5 w-1 old; launch D4 1: w-2; launch D4 1: w-3; launch D4 1: w-4; launch D4 1: w-5; launch D4 1: w-6; launch D4 1: w-7; launch D4 1: w-8; launch D4 1: w-9; launch D4 1: w-10; launch D4 1: w-11", ""},

		{"affinity to itself", "pods w x3 cpu=2 label:a=w affinity=zone", "launch D4 1: w-1 w-2; launch D4 1: w-3", ""},
		{"affinity to itself across zones", "pods w x3 cpu=2 label:a=w affinity=zone", "launch D4 1: w-1 w-2; launch D4 2: w-3", "is not met"},
		{"affinity to no pod", "pods w x1 cpu=1 label:a=w affinity=zone:a=x", "launch D4 1: w-1", "is not met"},
		{"affinity to a pod of the same launch", "pods w x1 cpu=1 affinity=host:a=x\npods x x1 cpu=1 label:a=x", "launch D4 1: w-1 x-1", ""},
		{"affinity to a running pod", "node n cpu=1 zone=2\npod x cpu=1 label:a=x on=n\npods w x1 cpu=1 affinity=zone:a=x", "launch D4 1: w-1", "is not met"},
		{"affinity by namespace", "namespace p label:env=prod\nnode n cpu=1 zone=2\npod x cpu=1 label:a=x on=n namespace=p\npods w x1 cpu=1 affinity=zone:a=x:where=env=prod", "launch D4 2: w-1", ""},
		{"affinity in another namespace", "node n cpu=1 zone=2\npod x cpu=1 label:a=x on=n namespace=p\npods w x1 cpu=1 affinity=zone:a=x", "launch D4 2: w-1", "is not met"},
		{"affinity counts terminating pods", "node n cpu=1 zone=2\npod x cpu=1 label:a=x on=n terminating\npods w x1 cpu=1 affinity=zone:a=x", "launch D4 2: w-1", ""},

		{"anti-affinity", "pods w x2 cpu=1 label:a=w anti-affinity=host", "launch D4 1: w-1; launch D4 1: w-2", ""},
		{"anti-affinity together", "pods w x2 cpu=1 label:a=w anti-affinity=host", "launch D4 1: w-1 w-2", "forbids the domain"},
		{"anti-affinity by zone over choices", "pods w x2 cpu=1 label:a=w anti-affinity=zone", "launch D4 1|2: w-1; launch D4 2: w-2", "instead of its first choice"},
		{"anti-affinity the other way", "node n cpu=4 zone=1\npod x cpu=1 on=n anti-affinity=zone:a=w\npods w x1 cpu=1 label:a=w", "launch D4 1: w-1", "forbids the domain"},
		{"anti-affinity merely preferred", "pods w x2 cpu=1 label:a=w anti-affinity~50=host", "launch D4 1: w-1 w-2", ""},

		{"ports", "pods w x2 cpu=1 port=TCP/80", "launch D4 1: w-1 w-2", "both take port"},
		{"ports by address", "pod a cpu=1 port=TCP/127.0.0.1:80\npod b cpu=1 port=TCP/10.0.0.1:80", "launch D4 1: a b", ""},
		{"ports everywhere", "pod a cpu=1 port=TCP/127.0.0.1:80\npod b cpu=1 port=TCP/0.0.0.0:80", "launch D4 1: a b", "both take port"},
		{"ports by protocol", "pod a cpu=1 port=TCP/80\npod b cpu=1 port=UDP/80", "launch D4 1: a b", ""},
		{"ports of running pods", "node n cpu=4\npod a cpu=1 port=TCP/80 on=n\npod b cpu=1 port=TCP/80", "on n: b", "both take port"},

		{"attached", "pods w x2 cpu=1 volume=v-#:disk", "launch D4 1: w-1 w-2", ""},
		{"too many attached", "pods w x3 cpu=1 volume=v-#:disk", "launch D4 1: w-1 w-2 w-3", "3 volumes of disk, 2 can be attached"},
		{"attached once", "pods w x3 cpu=1 volume=v:disk:shared", "launch D4 1: w-1 w-2 w-3", ""},
		{"attached without a limit", "pods w x3 cpu=1 volume=v-#:disk", "launch E4 1: w-1 w-2 w-3", ""},
		{"volume elsewhere", "pods w x1 cpu=1 volume=v:disk volume-in:zone=In:2 volume-in:zone=In:3", "launch D4 1: w-1", "cannot be mounted there"},
		{"volume here", "pods w x1 cpu=1 volume=v:disk volume-in:zone=In:2 volume-in:zone=In:3", "launch D4 3: w-1", ""},

		{"one claim for one pod", "pods w x2 cpu=1 volume=v::exclusive", "launch D4 1: w-1; unplaced w-2", ""},
		{"one claim for two pods", "pods w x2 cpu=1 volume=v::exclusive", "launch D4 1: w-1; launch D4 2: w-2", "uses a claim of it"},
		{"one claim, used by a running pod", "node n cpu=1\npod x cpu=1 volume=v::exclusive on=n\npods w x1 cpu=1 volume=v::exclusive", "launch D4 1: w-1", "pod x uses a claim of it"},
		{"one claim, used by no pod", "pods w x2 cpu=1 volume=v::exclusive", "unplaced w-1 w-2", "could launch a node for it"},

		{"unschedulable", "node n cpu=4 unschedulable\npods w x1 cpu=1", "on n: w-1", "takes no pods"},
		{"leaving", "node n cpu=4 leaving\npods w x1 cpu=1", "on n: w-1", "takes no pods"},
		{"left out", "node n cpu=4\npods w x1 cpu=1", "unplaced w-1", "would take it"},
		{"left out though a node could be launched", "pods w x2 cpu=1 label:a=w anti-affinity=host volume=v:disk:shared", "launch D4 1: w-1; unplaced w-2", "pool all could launch a node for it"},
		{"left out for a virtual pod", "node n cpu=1\npods w x1 cpu=1\npods spare x1 cpu=1 virtual", "on n: spare-1; unplaced w-1", "would take it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, err := enginetest.Parse(catalog + tc.script)
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
	for _, tc := range []struct{ name, script, plan, want string }{
		{"static", "type D4 cpu=4 price=1\npool all static\npods w x1 cpu=1", "launch D4 1: w-1", "static"},
		{"limits", "type D4 cpu=4 price=1\npool all limit:cpu=7\npods w x2 cpu=4", "launch D4 1: w-1; launch D4 1: w-2", "8000 of cpu, limit 7000"},
		{"too few values", "type D4 cpu=4 price=1 zones=1,2\npool all min-values:zone=2\npods w x1 cpu=4", "launch D4 1: w-1", "too few values of [topology.kubernetes.io/zone] for its pool"},
		{"enough values", "type D4 cpu=4 price=1 zones=1,2\npool all min-values:zone=2\npods w x1 cpu=4", "launch D4 1|2: w-1", ""},
		{"reserved", "type D4 cpu=4 reserved=0.01/r/1\npool all\npods w x2 cpu=4", "launch D4 1 reserved: w-1; launch D4 1 reserved: w-2", "quota reservation/r"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, err := enginetest.Parse(tc.script)
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

// byHand reads `on NODE: pods; launch TYPE ZONE|ZONE [capacity type]: pods; unplaced pods`.
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
		case f[0] == "unplaced":
			p.Unplaced = append(p.Unplaced, schedule.Unplaced{Pods: refs(f[1:]), Because: reason.Limits})
		case f[0] == "launch":
			p.Launches = append(p.Launches, schedule.Launch{Pool: "all", Offerings: acceptable(t, s, f[1:]), Pods: refs(strings.Fields(names))})
		default:
			t.Fatalf("%q is no act", act)
		}
	}
	return p
}

func acceptable(t *testing.T, s *enginetest.Script, f []string) []offering.Ref {
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
		t.Fatalf("%v is not offered", f)
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

// TestRandomFull checks that every kind of rule that RandomFull mixes in occurs often
// enough to affect plans.
func TestRandomFull(t *testing.T) {
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
			note(where+" affinity", len(p.Affinity) > 0)
			note(where+" anti-affinity", len(p.AntiAffinity) > 0)
			note(where+" port", len(p.Ports) > 0)
			note(where+" volume", len(p.Volumes) > 0)
			note("virtual", p.Virtual)
			note("terminating", p.Terminating)
			note("preference", len(p.Preferred) > 0)
		}
		for _, n := range s.Nodes {
			note("unschedulable", n.TakesNoPods)
			note("leaving", n.MarkedForDeletion)
			note("unmanaged", n.Pool == "")
			note("unregistered", n.Name == "")
		}
		for _, p := range s.Pools {
			note("static", p.Static)
			for _, r := range p.Requirements {
				note("minValues", r.MinValues > 0)
			}
		}
		for _, typ := range s.Types {
			note("attach limit", typ.Capacity[quantity.Attachable+"disk.csi.example.com"] > 0)
			for _, o := range typ.Offerings {
				note("reserved", o.CapacityType == offering.Reserved)
			}
		}
	}
	want := []string{"bound affinity", "bound anti-affinity", "bound port", "bound volume", "pending affinity", "pending anti-affinity", "pending port", "pending volume", "virtual", "terminating", "preference",
		"unschedulable", "leaving", "unmanaged", "unregistered", "static", "minValues", "attach limit", "reserved"}
	for _, key := range []string{cluster.LabelZone, cluster.LabelHostname, "team", "arch", cluster.LabelCapacityType} {
		want = append(want, fmt.Sprintf("pending spread over %s, soft false", key), fmt.Sprintf("pending spread over %s, soft true", key))
	}
	for _, what := range want {
		if seen[what] < 10 {
			t.Errorf("%s: %d times in 300 scripts", what, seen[what])
		}
	}
}
