package judge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/engine/pack"
	"github.com/karve-dev/karve/engine/world"
)

// TestJudge hands the judge plans made by hand: for every plugin one that it must
// refuse, and one that differs in little and that it must accept. A judge that
// cannot refuse proves nothing.
func TestJudge(t *testing.T) {
	const shop = `
type D4 cpu=4 mem=16Gi price=0.2 spot=0.1 zones=1,2,3 overhead-cpu=500m
pool web
`
	for _, c := range []struct {
		name, world, plan string
		want              string // plugin of the only rejection; empty when the plan is right
	}{
		{"room", shop + "pods web x3 cpu=1", "buy D4 1: web-1 web-2 web-3", ""},
		{"too big", shop + "pods web x4 cpu=1", "buy D4 1: web-1 web-2 web-3 web-4", "NodeResourcesFit"},
		{"room beside a daemon", shop + "daemon agent cpu=500m\npods web x3 cpu=1", "buy D4 1: web-1 web-2 web-3", ""},
		{"no room beside a daemon", shop + "daemon agent cpu=600m\npods web x3 cpu=1", "buy D4 1: web-1 web-2 web-3", "NodeResourcesFit"},
		{"daemons are nobody's neighbours", shop + "daemon agent\nnode n3 zone=3\npods web x2 spread=zone:1:app!=db", "buy D4 1: web-1; on n3: web-2", ""},
		{"daemon that does not come", shop + "daemon agent cpu=600m need:arch=In:none\npods web x3 cpu=1", "buy D4 1: web-1 web-2 web-3", ""},
		{"room beside what runs", "node n1 cpu=2\npods old x1 on=n1 cpu=1\npods web x1 cpu=1", "on n1: web-1", ""},
		{"no room beside what runs", "node n1 cpu=2\npods old x2 on=n1 cpu=1\npods web x1 cpu=1", "on n1: web-1", "NodeResourcesFit"},
		{"room that an ending pod still takes", "node n1 cpu=2\npods old x1 on=n1 cpu=2 terminating\npods web x1 cpu=1", "on n1: web-1", "NodeResourcesFit"},

		{"zone", shop + "pods web x1 need:zone=In:2", "buy D4 2: web-1", ""},
		{"wrong zone", shop + "pods web x1 need:zone=In:2", "buy D4 1: web-1", "NodeAffinity"},
		{"bound", "node n1 label:version=3\npods web x1 need:version=Gte:3 need:version=Lte:3", "on n1: web-1", ""},
		{"beyond the bound", "node n1 label:version=3\npods web x1 need:version=Gte:4", "on n1: web-1", "NodeAffinity"},
		{"above zero", "node n1 label:version=0\npods web x1 need:version=Gte:0 need:version=Lte:0", "on n1: web-1", ""},
		{"below zero", "node n1 label:version=0\npods web x1 need:version=Lt:-1", "on n1: web-1", "NodeAffinity"},
		{"second alternative", "node n1 label:team=blue\npods web x1 or:1:team=In:red or:2:team=In:blue", "on n1: web-1", ""},
		{"no alternative", "node n1 label:team=green\npods web x1 or:1:team=In:red or:2:team=In:blue", "on n1: web-1", "NodeAffinity"},

		{"tolerated taint", "node n1 taint:gpu=yes:NoSchedule\npods web x1 tolerate:gpu=yes:NoSchedule", "on n1: web-1", ""},
		{"taint", "node n1 taint:gpu=yes:NoSchedule\npods web x1 tolerate:gpu=no:NoSchedule", "on n1: web-1", "TaintToleration"},

		{"ports", "node n1\npods old x1 on=n1 port=TCP/127.0.0.1:80\npods web x1 port=UDP/80 port=TCP/127.0.0.2:80", "on n1: web-1", ""},
		{"port clash", "node n1\npods old x1 on=n1 port=TCP/127.0.0.1:80\npods web x1 port=TCP/80", "on n1: web-1", "NodePorts"},

		{"spread", shop + "pods web x4 label:app=web spread=zone:1", "buy D4 1: web-1 web-2; buy D4 2: web-3; buy D4 3: web-4", ""},
		{"skew", shop + "pods web x4 label:app=web spread=zone:1", "buy D4 1: web-1 web-2 web-3; buy D4 2: web-4", "PodTopologySpread"},
		{"skew against what runs", shop + "node n3 zone=3\npods web x2 label:app=web spread=zone:1", "buy D4 1: web-1; buy D4 1: web-2", "PodTopologySpread"},
		{"soft spread", shop + "node n3 zone=3\npods web x2 label:app=web spread=zone:1:soft", "buy D4 1: web-1; buy D4 1: web-2", ""},
		{"too few domains", shop + "pods web x2 label:app=web spread=zone:1:min=3", "buy D4 1: web-1 web-2", "PodTopologySpread"},
		{"tainted domain counts", shop + "node n3 zone=3 taint:a=b:NoSchedule\npods web x2 label:app=web spread=zone:1", "buy D4 1: web-1 web-2", "PodTopologySpread"},
		{"tainted domain left out", shop + "node n3 zone=3 taint:a=b:NoSchedule\npods web x2 label:app=web spread=zone:1:honor-taints", "buy D4 1: web-1 web-2", ""},
		{"stuck domain stays", shop + "node n3 zone=3 stuck\npods web x2 label:app=web spread=zone:1", "buy D4 1: web-1 web-2", "PodTopologySpread"},
		{"stuck domain is tainted", shop + "node n3 zone=3 stuck\npods web x2 label:app=web spread=zone:1:honor-taints", "buy D4 1: web-1 web-2", ""},
		{"stuck before it is a node", shop + "node n3 zone=3 stuck unregistered\npods web x2 label:app=web spread=zone:1", "buy D4 1: web-1 web-2", ""},
		{"leaving domain goes", shop + "node n3 zone=3 leaving\npods web x2 label:app=web spread=zone:1", "buy D4 1: web-1 web-2", ""},

		{"apart", shop + "pods web x2 label:app=web apart=host", "buy D4 1: web-1; buy D4 1: web-2", ""},
		{"together though apart", shop + "pods web x2 label:app=web apart=host", "buy D4 1: web-1 web-2", "InterPodAffinity"},
		{"what runs stays alone", "node n1\npods old x1 on=n1 apart=host:app=web\npods web x1 label:app=web", "on n1: web-1", "InterPodAffinity"},
		{"what ends is no neighbour", "node n1\npods old x1 on=n1 terminating apart=host:app=web\npods web x1 label:app=web", "on n1: web-1", ""},
		{"what has ended is not counted", "node n1 zone=1\nnode n2 zone=2\npods old x1 on=n1 terminating cpu=1\npods web x1 spread=zone:1:app!=db", "on n1: web-1", ""},
		{"the disk of what ended", "node n1 attach:disk=1\npods old x1 on=n1 volume=a:disk terminating\npods db x1 volume=b:disk", "on n1: db-1", "NodeVolumeLimits"},
		{"others let the spread go first", "node n1 zone=1\nnode n2 zone=2\npods any x2 spread=host:9:app=db\npods web x1 spread=zone:1:app!=db", "on n1: any-1 any-2 web-1", ""},
		{"near", shop + "node n2 zone=2\npods db x1 on=n2 label:app=db\npods web x1 near=zone:app=db", "buy D4 2: web-1", ""},
		{"not near", shop + "node n2 zone=2\npods db x1 on=n2 label:app=db\npods web x1 near=zone:app=db", "buy D4 1: web-1", "InterPodAffinity"},
		{"first of its kind", shop + "pods web x2 label:app=web near=zone", "buy D4 1: web-1; buy D4 1: web-2", ""},
		{"two firsts", shop + "pods web x2 label:app=web near=zone", "buy D4 1: web-1; buy D4 2: web-2", "InterPodAffinity"},
		{"near in a namespace", "namespace a label:env=prod\nnode n1 zone=1\npods db x1 on=n1 namespace=a label:app=db\npods web x1 near=zone:app=db:where=env=prod", "on n1: web-1", ""},
		{"near in another namespace", "namespace a label:env=test\nnode n1 zone=1\npods db x1 on=n1 namespace=a label:app=db\npods web x1 near=zone:app=db:where=env=prod", "on n1: web-1", "InterPodAffinity"},
		{"what comes later", shop + "pods web x1 near=zone:app=db\npods db x1 label:app=db", "buy D4 1: web-1; buy D4 1: db-1", ""},

		{"volume here", shop + "pods db x1 volume=v:disk volume-in:zone=In:2", "buy D4 2: db-1", ""},
		{"volume elsewhere", shop + "pods db x1 volume=v:disk volume-in:zone=In:2", "buy D4 1: db-1", "VolumeBinding"},
		{"volume in one of two places", shop + "pods db x1 volume=v volume-in:1:zone=In:2 volume-in:2:zone=In:1", "buy D4 1: db-1", ""},
		{"attached", "node n1 attach:disk=2\npods old x1 on=n1 volume=a:disk\npods db x1 volume=b:disk", "on n1: db-1", ""},
		{"attached too many", "node n1 attach:disk=1\npods old x1 on=n1 volume=a:disk\npods db x1 volume=b:disk", "on n1: db-1", "NodeVolumeLimits"},
		{"attached once for two", "node n1 attach:disk=1\npods old x1 on=n1 volume=a:disk:shared\npods db x1 volume=a:disk:shared", "on n1: db-1", ""},
		{"attached too many on a new node", "type D2 cpu=2 price=0.1 attach:disk=1\npool web\npods db x2 volume=v#:disk", "buy D2 1: db-1 db-2", "NodeVolumeLimits"},
		{"attached within the limit of a new node", "type D2 cpu=2 price=0.1 attach:disk=2\npool web\npods db x2 volume=v#:disk", "buy D2 1: db-1 db-2", ""},

		{"moved", shop + "node n1 cpu=4 leaving\npods old x1 on=n1 cpu=1", "buy D4 1: old-1", ""},
		{"moved while it stays", shop + "node n1 cpu=4\npods old x1 on=n1 cpu=1", "buy D4 1: old-1", Plan},
		{"onto a leaving node", "node n1 cpu=4 leaving\npods web x1 cpu=1", "on n1: web-1", Plan},
		{"onto a stuck node", "node n1 cpu=4 stuck\npods web x1 cpu=1", "on n1: web-1", Plan},
		{"onto a node on its way", "node n1 cpu=4 unregistered\npods web x1 cpu=1 label:app=web spread=host:1", "on n1: web-1", ""},
		{"nowhere", "pods web x1 cpu=1", "on n1: web-1", Plan},
		{"what is not on sale", shop + "pods web x1 cpu=1", "buy D4 4: web-1", Plan},
		{"twice", shop + "pods web x1 cpu=1", "buy D4 1: web-1; buy D4 2: web-1", Plan},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := enginetest.Parse(c.world)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range Replay(s, byHand(t, c.plan)) {
				got = append(got, r.Plugin)
			}
			// Of several pods that stand in each other's way only some are refused.
			if want := strings.Fields(c.want); !cmp.Equal(want, unique(got)) && len(want)+len(got) > 0 {
				t.Errorf("refused by %v, want %v", Replay(s, byHand(t, c.plan)), want)
			}
		})
	}
}

func unique(in []string) []string {
	var out []string
	for _, s := range in {
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return out
}

// byHand reads a plan: `on node: pods` and `buy type zone: pods`, between semicolons.
// Everything is bought on demand for pool web.
func byHand(t *testing.T, text string) pack.Plan {
	t.Helper()
	var p pack.Plan
	for _, part := range strings.Split(text, ";") {
		head, names, _ := strings.Cut(part, ":")
		var refs []world.Ref
		for _, name := range strings.Fields(names) {
			refs = append(refs, world.Ref{Namespace: "default", Name: name, UID: name})
		}
		switch f := strings.Fields(head); f[0] {
		case "on":
			p.Nominations = append(p.Nominations, pack.Nomination{Node: f[1], Pods: refs})
		case "buy":
			choice := offer.Choice{Type: f[1], Zone: f[2], CapacityType: offer.OnDemand}
			p.Launches = append(p.Launches, pack.Launch{Pool: "web", Choices: []offer.Choice{choice}, Pods: refs})
		default:
			t.Fatalf("%q is not a plan", part)
		}
	}
	return p
}

// TestReplayAny: a launch whose second choice is in the wrong zone is right only as
// long as the first can be bought.
func TestReplayAny(t *testing.T) {
	s, err := enginetest.Parse("type D4 cpu=4 mem=16Gi price=0.2 zones=1,2\npool web\npods web x1 need:zone=In:1")
	if err != nil {
		t.Fatal(err)
	}
	p := byHand(t, "buy D4 1: web-1")
	p.Launches[0].Choices = append(p.Launches[0].Choices, offer.Choice{Type: "D4", Zone: "2", CapacityType: offer.OnDemand})
	if got := Replay(s, p); len(got) > 0 {
		t.Errorf("as its first choice: %v", got)
	}
	refused := 0
	for seed := range uint64(20) {
		refused += len(ReplayAny(s, p, seed))
	}
	if refused == 0 || refused == 20 {
		t.Errorf("refused %d times out of 20, want some", refused)
	}
}

// TestMisses: a pod that fits on a node and was left out is found; one that has
// lost its room to another is not.
func TestMisses(t *testing.T) {
	s, err := enginetest.Parse("node n1 cpu=1\npods web x2 cpu=1")
	if err != nil {
		t.Fatal(err)
	}
	web := func(i int) world.Ref { return s.Pods[i].Ref }
	placed := pack.Plan{
		Nominations: []pack.Nomination{{Node: "n1", Pods: []world.Ref{web(0)}}},
		Unplaced:    []pack.Unplaced{{Pods: []world.Ref{web(1)}}},
	}
	if got := Misses(s, placed); len(got) > 0 {
		t.Errorf("the node is full: %v", got)
	}
	idle := pack.Plan{Unplaced: []pack.Unplaced{{Pods: []world.Ref{web(0), web(1)}}}}
	if diff := cmp.Diff([]Miss{{web(0), "n1"}, {web(1), "n1"}}, Misses(s, idle)); diff != "" {
		t.Error(diff)
	}
}
