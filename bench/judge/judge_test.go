// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestVerdicts judges the plans in testdata: for every filter plans that it must refuse,
// and similar plans that it must accept. A judge that cannot refuse proves nothing.
func TestVerdicts(t *testing.T) {
	refused := map[string]bool{}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, c := range readCases(t, file) {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+c.name, func(t *testing.T) {
				c.check(t)
				for _, plugin := range c.refusedBy {
					refused[plugin] = true
				}
			})
		}
	}
	for _, plugin := range append([]string{Plan}, filters...) {
		if !refused[plugin] && plugin != names.NodeName { // a pending pod that names its node is bound
			t.Errorf("no plan is refused by %s", plugin)
		}
	}
}

// testCase is a plan for a cluster and the expected verdict.
type testCase struct {
	name, cluster string
	plan          schedule.Plan
	refusedBy     []string // plugins; none when the plan is right
}

// readCases reads `case name`, lines of a cluster, `plan` lines (see byHand) and the
// verdict: `accepted` or `refused by` plugins. What precedes the first case belongs
// to the cluster of each.
func readCases(t *testing.T, file string) []testCase {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "\ncase ")
	var out []testCase
	for _, block := range blocks[1:] {
		name, body, _ := strings.Cut(block, "\n")
		c := testCase{name: name, cluster: blocks[0] + "\n"}
		verdict := false
		for line := range strings.Lines(body) {
			switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
			case "plan":
				byHand(t, &c.plan, rest)
			case "accepted":
				verdict = true
			case "refused":
				verdict = true
				c.refusedBy = strings.Fields(strings.TrimPrefix(rest, "by "))
			default:
				c.cluster += line
			}
		}
		if !verdict {
			t.Fatalf("%s: case %s has no verdict", file, name)
		}
		out = append(out, c)
	}
	return out
}

// check has the plan judged with the pods' own volumes there already, and with
// those volumes still to be made.
func (c testCase) check(t *testing.T) {
	s, err := enginetest.Parse(c.cluster)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []options{{choose: firstOffering}, {choose: firstOffering, make: always}} {
		found := newReplay(s, c.plan, to).rejections()
		var got []string
		for _, r := range found {
			got = append(got, r.Plugin)
		}
		// Of several pods that exclude each other only some are refused.
		if !slices.Equal(c.refusedBy, slices.Compact(got)) {
			t.Errorf("volumes to be made: %v: refused by %v, want %v", to.make != nil, found, c.refusedBy)
		}
	}
}

func always() bool { return true }

// byHand adds a line to a plan: `on node: pods` or `launch type zone: pods`. All launches are
// on demand for pool web.
func byHand(t *testing.T, p *schedule.Plan, line string) {
	t.Helper()
	head, names, _ := strings.Cut(line, ":")
	var refs []cluster.PodRef
	for _, name := range strings.Fields(names) {
		refs = append(refs, cluster.PodRef{Namespace: "default", Name: name, UID: name})
	}
	switch f := strings.Fields(head); f[0] {
	case "on":
		p.Nominations = append(p.Nominations, schedule.Nomination{Node: f[1], Pods: refs})
	case "launch":
		choice := offering.Ref{Type: f[1], Zone: f[2], CapacityType: offering.OnDemand}
		p.Launches = append(p.Launches, schedule.Launch{Pool: "web", Offerings: []offering.Ref{choice}, Pods: refs})
	default:
		t.Fatalf("%q is not a plan", line)
	}
}

// TestReplayAny: a launch whose second offering is in the wrong zone is right only as
// long as the first can be launched.
func TestReplayAny(t *testing.T) {
	s, err := enginetest.Parse("type D4 cpu=4 mem=16Gi price=0.2 zones=1,2\npool web\npods web x1 require:zone=In:1")
	if err != nil {
		t.Fatal(err)
	}
	var p schedule.Plan
	byHand(t, &p, "launch D4 1: web-1")
	p.Launches[0].Offerings = append(p.Launches[0].Offerings, offering.Ref{Type: "D4", Zone: "2", CapacityType: offering.OnDemand})
	if got := Replay(s, p); len(got) > 0 {
		t.Errorf("as its first offering: %v", got)
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
	web := func(i int) cluster.PodRef { return s.Pods[i].PodRef }
	placed := schedule.Plan{
		Nominations: []schedule.Nomination{{Node: "n1", Pods: []cluster.PodRef{web(0)}}},
		Unplaced:    []schedule.Unplaced{{Pods: []cluster.PodRef{web(1)}}},
	}
	if got := Misses(s, placed); len(got) > 0 {
		t.Errorf("the node is full: %v", got)
	}
	idle := schedule.Plan{Unplaced: []schedule.Unplaced{{Pods: []cluster.PodRef{web(0), web(1)}}}}
	if diff := cmp.Diff([]Miss{{web(0), "n1"}, {web(1), "n1"}}, Misses(s, idle)); diff != "" {
		t.Error(diff)
	}
}
