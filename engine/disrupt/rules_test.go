// SPDX-License-Identifier: Apache-2.0

package disrupt

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/engine/reason"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// quietNode may be disrupted for any cause.
func quietNode() Node {
	return Node{
		Key: "claim-1", Name: "node-1", Pool: "general", Ready: true, ReschedulablePods: ReschedulablePods{Pods: 3, EvictionCost: 3},
		Created: noon.Add(-2 * time.Hour), Initialized: noon.Add(-2 * time.Hour), LastPodEvent: noon.Add(-time.Hour),
		Due: []DueCause{{Cause: Drifted, Since: noon.Add(-time.Minute)}, {Cause: Expired, Since: noon}},
	}
}

var (
	protectedPod = Block{Because: DoNotDisrupt, Detail: "pod", ByPod: true, Until: noon.Add(time.Hour)}
	protectedOne = Block{Because: DoNotDisrupt, Detail: "node"}
)

// Rule BLOCK-1, Rule BLOCK-2, Rule CONSOLIDATION-3, Rule CONSOLIDATION-4, Rule CONSOLIDATION-5,
// Rule CONSOLIDATION-23: which nodes are kept, for which causes, and with which reason.
func TestEligible(t *testing.T) {
	all := []Cause{Empty, Underutilized, Drifted, Expired}
	occupied := []Cause{Underutilized, Drifted, Expired} // causes that concern nodes with pods
	vacant := []Cause{Empty, Drifted, Expired}
	for _, tc := range []struct {
		name   string
		change func(*Node, *Pool, *Input)
		causes []Cause
		// asked and because are the cause and the reason of a refusal; causes for which the
		// node cannot be disrupted anyway are left out.
		asked   Cause
		because reason.Reason
		detail  string
		until   time.Time
	}{
		{"nothing against it", func(*Node, *Pool, *Input) {}, occupied, Empty, NotEmpty, "3 pods need another node", time.Time{}},
		{"an empty one", func(n *Node, _ *Pool, _ *Input) { n.Pods, n.EvictionCost = 0, 0 }, vacant, Underutilized, NotOccupied, "", time.Time{}},
		{"on its way up", func(n *Node, _ *Pool, _ *Input) { n.Initialized = time.Time{} }, nil, Drifted, NotInitialized, "Node isn't initialized", time.Time{}},
		{"leaving", func(n *Node, _ *Pool, _ *Input) { n.MarkedForDeletion = true }, nil, Drifted, MarkedForDeletion, "Node is deleting or marked for deletion", time.Time{}},
		{"terminating", func(n *Node, _ *Pool, _ *Input) { n.Terminating = true }, nil, Expired, MarkedForDeletion, "Node is deleting or marked for deletion", time.Time{}},
		{"chosen before", func(_ *Node, _ *Pool, in *Input) { in.Underway = []Move{{Nodes: []string{"a", "claim-1"}}} }, nil,
			Drifted, MoveInProgress, "A move of the node is under way", time.Time{}},
		{"nominated", func(n *Node, _ *Pool, _ *Input) { n.Nominated = true }, nil, Drifted, Nominated, "Node is nominated for a pending pod", time.Time{}},
		{"annotated", func(n *Node, _ *Pool, _ *Input) {
			n.HasTerminationGracePeriod, n.Blocks = true, []Block{protectedPod, protectedOne}
		}, nil, Drifted, DoNotDisrupt, "node", time.Time{}},
		{"of no pool", func(n *Node, _ *Pool, _ *Input) { n.Pool = "" }, nil, Drifted, NoNodePool,
			"Node doesn't have required label (label=karpenter.sh/nodepool)", time.Time{}},
		{"a pod protects it", func(n *Node, _ *Pool, _ *Input) { n.Blocks = []Block{protectedPod} }, nil, Drifted, DoNotDisrupt, "pod", noon.Add(time.Hour)},
		{"a pod protects it for a while", func(n *Node, _ *Pool, _ *Input) {
			n.HasTerminationGracePeriod, n.Blocks = true, []Block{protectedPod}
		}, []Cause{Drifted, Expired},
			Underutilized, DoNotDisrupt, "pod", noon.Add(time.Hour)},
		{"a move failed", func(_ *Node, _ *Pool, in *Input) {
			in.BackOffUntil = map[string]time.Time{"claim-1": noon.Add(time.Minute)}
		}, nil,
			Drifted, BackingOff, "A move of the node failed, it is tried again later", noon.Add(time.Minute)},
		{"a move failed once", func(_ *Node, _ *Pool, in *Input) { in.BackOffUntil = map[string]time.Time{"claim-1": noon} }, occupied, Empty, NotEmpty, "3 pods need another node", time.Time{}},
		{"moves failed", func(_ *Node, p *Pool, _ *Input) { p.BackOffUntil = noon.Add(time.Minute) }, nil,
			Drifted, BackingOff, `Moves in NodePool "general" failed, it is tried again later`, noon.Add(time.Minute)},
		{"not due", func(n *Node, _ *Pool, _ *Input) { n.Due = nil }, []Cause{Underutilized}, Expired, NoReplacementNeeded, "", time.Time{}},
		{"static", func(_ *Node, p *Pool, _ *Input) { p.Static = true }, []Cause{Drifted, Expired}, Underutilized, reason.Static,
			`NodePool "general" keeps a fixed number of nodes`, time.Time{}},
		{"no price", func(n *Node, _ *Pool, _ *Input) { n.PriceUnknownDetail = "Instance Type \"x\" not found" }, []Cause{Drifted, Expired}, Underutilized, PriceUnknown,
			`Instance Type "x" not found`, time.Time{}},
		{"no price, empty", func(n *Node, _ *Pool, _ *Input) { n.PriceUnknownDetail, n.Pods, n.EvictionCost = "?", 0, 0 }, vacant, Underutilized, PriceUnknown, "?", time.Time{}},
		{"never", func(_ *Node, p *Pool, _ *Input) { p.ConsolidationDisabled = true }, []Cause{Drifted, Expired}, Underutilized, ConsolidateAfterNever,
			`NodePool "general" has consolidation disabled`, time.Time{}},
		{"never, empty", func(n *Node, p *Pool, _ *Input) { p.ConsolidationDisabled, n.Pods, n.EvictionCost = true, 0, 0 }, []Cause{Drifted, Expired}, Empty, ConsolidateAfterNever,
			`NodePool "general" has consolidation disabled`, time.Time{}},
		{"spare room", func(n *Node, _ *Pool, _ *Input) { n.HasBufferCapacity, n.Pods, n.EvictionCost = true, 0, 0 }, []Cause{Drifted, Expired}, Empty, BufferCapacity,
			`Node "node-1" has buffer pods`, time.Time{}},
		{"only empty ones", func(_ *Node, p *Pool, _ *Input) { p.Policy = WhenEmpty }, []Cause{Drifted, Expired}, Underutilized, WhenEmptyPolicy,
			`NodePool "general" has consolidation policy WhenEmpty, but node is not empty`, time.Time{}},
		{"busy", func(_ *Node, p *Pool, _ *Input) { p.ConsolidateAfter = 90 * time.Minute }, []Cause{Drifted, Expired}, Underutilized, NotYetConsolidatable,
			"Quiet for 1h0m0s of 1h30m0s", noon.Add(30 * time.Minute)},
		{"consolidated in vain", func(_ *Node, p *Pool, _ *Input) { p.ConsolidationPausedUntil = noon.Add(time.Minute) }, []Cause{Drifted, Expired}, Underutilized, ConsolidationUndone,
			`The last consolidation in NodePool "general" did not come true, it is tried again later`, noon.Add(time.Minute)},
		{"consolidated in vain once", func(_ *Node, p *Pool, _ *Input) { p.ConsolidationPausedUntil = noon }, occupied, Empty, NotEmpty, "3 pods need another node", time.Time{}},
		{"consolidated in vain, empty", func(n *Node, p *Pool, _ *Input) {
			p.ConsolidationPausedUntil, n.Pods, n.EvictionCost = noon.Add(time.Minute), 0, 0
		}, vacant, Underutilized, NotOccupied, "", time.Time{}},
		{"young", func(_ *Node, p *Pool, _ *Input) { p.MinAge = 3 * time.Hour }, []Cause{Drifted, Expired}, Underutilized, RecentlyLaunched,
			`Node is 2h0m0s old, NodePool "general" asks for 3h0m0s`, noon.Add(time.Hour)},
		{"young and empty", func(n *Node, p *Pool, _ *Input) { p.MinAge, n.Pods, n.EvictionCost = 3*time.Hour, 0, 0 }, vacant, Underutilized, NotOccupied, "", time.Time{}},
		{"too young by the settings", func(_ *Node, p *Pool, in *Input) { p.MinAge, in.Settings.MinAge = -1, 3*time.Hour }, []Cause{Drifted, Expired}, Underutilized, RecentlyLaunched,
			`Node is 2h0m0s old, NodePool "general" asks for 3h0m0s`, noon.Add(time.Hour)},
		{"young, as Karpenter sees it", func(_ *Node, p *Pool, in *Input) { p.MinAge, in.Settings.Upstream = 3*time.Hour, true }, occupied, Empty, NotEmpty,
			"3 pods need another node", time.Time{}},
		{"cheap pods", func(n *Node, _ *Pool, _ *Input) { n.EvictionCost = 0 }, occupied, Empty, NotEmpty, "3 pods need another node", time.Time{}},
		{"cheap pods, as Karpenter sees it", func(n *Node, _ *Pool, in *Input) { n.EvictionCost, in.Settings.Upstream = 0, true }, vacant, Underutilized, NotOccupied, "", time.Time{}},
	} {
		n, p, in := quietNode(), Pool{Name: "general"}, Input{Now: noon}
		tc.change(&n, &p, &in)
		for _, cause := range all {
			kept, ok := Eligible(&n, &p, cause, &in)
			if want := slices.Contains(tc.causes, cause); ok != want || ok != (kept.Because == "") {
				t.Errorf("%s: %s allowed: %t (%+v), want %t", tc.name, cause, ok, kept, want)
			}
		}
		want := Kept{Key: "claim-1", Because: tc.because, Detail: tc.detail, Until: tc.until}
		got, _ := Eligible(&n, &p, tc.asked, &in)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, %s: %s", tc.name, tc.asked, diff)
		}
	}
}

func TestUnknownPool(t *testing.T) {
	n := quietNode()
	got, ok := Eligible(&n, nil, Drifted, &Input{Now: noon})
	if ok || got.Because != NoNodePool || got.Detail != "NodePool not found (NodePool=general)" {
		t.Errorf("%+v", got)
	}
}

// Rule CONSOLIDATION-4: nodes that are not consolidatable yet receive no pods of consolidated
// nodes.
func TestCanReceive(t *testing.T) {
	p := Pool{Name: "general", ConsolidateAfter: 90 * time.Minute}
	for name, tc := range map[string]struct {
		change func(*Node, *Pool, *Input)
		want   bool
	}{
		"busy":           {func(*Node, *Pool, *Input) {}, false},
		"consolidatable": {func(n *Node, _ *Pool, _ *Input) { n.LastPodEvent = noon.Add(-90 * time.Minute) }, true},
		"never":          {func(_ *Node, p *Pool, _ *Input) { p.ConsolidationDisabled = true }, true},
		"static":         {func(_ *Node, p *Pool, _ *Input) { p.Static = true }, true},
		"leaving":        {func(n *Node, p *Pool, _ *Input) { n.MarkedForDeletion, p.ConsolidationDisabled = true, true }, false},
		"underway": {func(_ *Node, p *Pool, in *Input) {
			in.Underway, p.ConsolidationDisabled = []Move{{Nodes: []string{"claim-1"}}}, true
		}, false},
		"young": {func(n *Node, p *Pool, _ *Input) { n.Initialized, p.ConsolidationDisabled = time.Time{}, true }, false},
	} {
		n, p, in := quietNode(), p, Input{Now: noon}
		tc.change(&n, &p, &in)
		if got := CanReceive(&n, &p, &in); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestEvents(t *testing.T) {
	for because, want := range map[reason.Reason]string{
		Nominated: "DisruptionBlocked", PodDisruptionBudget: "DisruptionBlocked", WhenEmptyPolicy: "Unconsolidatable", PriceUnknown: "Unconsolidatable",
		SavingsTooSmall: "Unconsolidatable", NoReplacementNeeded: "", MoveInProgress: "", "": "", reason.Static: "",
	} {
		if got := Event(because); got != want {
			t.Errorf("%q: %q, want %q", because, got, want)
		}
	}
}
