// SPDX-License-Identifier: Apache-2.0

package provision_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/engine/enginetest"
	"github.com/karve-dev/karve/engine/reason"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/provider/memory"
)

// Rule LAUNCH-1.
func TestBatcherWindows(t *testing.T) {
	const idle, longest = time.Second, 3 * time.Second
	for _, tc := range []struct {
		name  string
		busy  bool            // a batch was due just before
		after []time.Duration // when new pods are created, from the first one on
		want  time.Duration   // when the batch closes, from the first pod on
	}{
		{"idle: fires almost at once", false, nil, idle / 10},
		{"idle: a burst is one batch", false, []time.Duration{50 * time.Millisecond, 120 * time.Millisecond}, 220 * time.Millisecond},
		{"busy: gathers", true, nil, idle},
		{"busy: a new pod keeps it open", true, []time.Duration{800 * time.Millisecond}, 1800 * time.Millisecond},
		{"busy: not for ever", true, []time.Duration{900 * time.Millisecond, 1800 * time.Millisecond, 2700 * time.Millisecond}, longest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := provision.NewBatcher(idle, longest)
				if tc.busy {
					b.Trigger("earlier")
					b.Wait(context.Background(), time.Hour)
				}
				start := time.Now()
				b.Trigger("first")
				for i, d := range tc.after {
					time.AfterFunc(d, func() { b.Trigger(string(rune('a' + i))) })
				}
				time.AfterFunc(tc.want-time.Millisecond, func() { b.Trigger("first") }) // known: must not extend it
				if !b.Wait(context.Background(), time.Hour) {
					t.Fatal("Wait gave up")
				}
				if took := time.Since(start); took != tc.want {
					t.Errorf("closed after %s, want %s", took, tc.want)
				}
				synctest.Wait()
			})
		})
	}
}

func TestBatcherRetriesAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := provision.NewBatcher(0, 0)
		start := time.Now()
		if !b.Wait(context.Background(), 10*time.Second) || time.Since(start) != 10*time.Second {
			t.Error("no batch for pods that wait longer")
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if b.Wait(ctx, time.Hour) {
			t.Error("Wait went on after the end")
		}
	})
}

// Rule REASON-1, Rule REASON-3.
func TestExplain(t *testing.T) {
	u := schedule.Unplaced{Funnels: []reason.Funnel{
		{Pool: "web", Offerings: 5012, Cuts: []reason.Cut{
			{By: reason.Requirements, Removed: 4712, Detail: "sku-family In [D]"},
			{By: reason.Resources, Removed: 300, Detail: "largest has 30.2 CPU free"},
		}},
		{Pool: "gpu", Blocked: reason.NodePoolNotReady, Detail: "NodeClassReady is False"},
	}}
	want := `0/2 nodepools can host it: pool "web": 5,012 offerings → 300 after Requirements → 0 after Resources (largest has 30.2 CPU free)` +
		`: no instance type which met the scheduling requirements and the required offering had the required resources; pool "gpu": NodePoolNotReady (NodeClassReady is False)`
	if diff := cmp.Diff(want, provision.Explain(u)); diff != "" {
		t.Error(diff)
	}
	static := schedule.Unplaced{Funnels: []reason.Funnel{{Pool: "fixed", Blocked: reason.Static}}}
	if got := provision.Explain(static); !strings.HasSuffix(got, ": no dynamic nodepools found") {
		t.Error(got)
	}
	if got := provision.Explain(schedule.Unplaced{Because: reason.NoNodePools}); !strings.Contains(got, "no dynamic nodepools found") {
		t.Error(got)
	}
	if got := provision.Explain(schedule.Unplaced{Because: reason.Unsupported, Detail: "host ports"}); got != "Unsupported: host ports" {
		t.Error(got)
	}
}

// Upstream's failure texts are kept, whichever filter removed the last offering.
//
// Rule REASON-1, Rule REASON-3.
func TestExplainKeepsKnownPhrases(t *testing.T) {
	cut := func(by reason.Reason, removed int, detail string, facts ...reason.Fact) reason.Cut {
		return reason.Cut{By: by, Removed: removed, Detail: detail, Facts: facts}
	}
	for want, cuts := range map[string][]reason.Cut{
		"no instance type met all requirements":                                  {cut(reason.Requirements, 9, "team In [a]")},
		"nodepool requirements filtered out all available instance types":        {cut(reason.Requirements, 9, "the pool's own requirements")},
		"did not tolerate taint (taint=gpu=true:NoSchedule)":                     {cut(reason.Taints, 9, "", reason.Fact{Name: "taint", Value: "gpu=true:NoSchedule"})},
		"no instance type has enough resources":                                  {cut(reason.Requirements, 4, "the pool's own requirements"), cut(reason.Resources, 5, "")},
		"no instance type has the required offering":                             {cut(reason.Availability, 9, "sold out")},
		"and had enough resources, had a required offering":                      {cut(reason.Resources, 4, ""), cut(reason.Quota, 5, "")},
		"node limits have been exhausted for nodepool (NodePool=web)":            {cut(reason.Limits, 9, "limits.nodes of 3 is reached")},
		"all available instance types exceed limits for nodepool (NodePool=web)": {cut(reason.Limits, 9, "limits.cpu is 8")},
		"checking host port usage (ports=[TCP/80])":                              {cut(reason.Ports, 9, "", reason.Fact{Name: "ports", Value: []string{"TCP/80"}})},
		"incompatible volume requirements":                                       {cut(reason.Volumes, 9, "bound in zone 1")},
		"NodePool couldn’t meet minValues requirements (NodePool=web)":           {cut(reason.MinValues, 9, "")},
		`incompatible requirements, label "tier" does not have known values (typo of "team"?)`: {
			cut(reason.Requirements, 9, "tier In [a]", reason.Fact{Name: "nearest", Value: "team"}, reason.Fact{Name: "unknown", Value: "tier"}),
		},
		"unsatisfiable topology constraint for topology spread, key=z (counts = [1:2], podDomains = [1])": {cut(reason.Topology, 9, "", reason.Fact{Name: "counts", Value: map[string]int64{"1": 2}}, reason.Fact{Name: "podDomains", Value: []string{"1"}}, reason.Fact{Name: "key", Value: "z"}, reason.Fact{Name: "type", Value: "topology spread"})},
	} {
		got := provision.Explain(schedule.Unplaced{Funnels: []reason.Funnel{{Pool: "web", Offerings: 9, Cuts: cuts}}})
		if !strings.Contains(got, want) || !strings.HasPrefix(got, `0/1 nodepools can host it: pool "web": 9 offerings → `) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

// The engine's own words and parameters are in the text, none of them twice.
//
// Rule REASON-4, Rule REASON-6.
func TestExplainWhatTheEngineSays(t *testing.T) {
	script, err := enginetest.Parse(`
type D4 cpu=4 mem=16Gi price=0.2 zones=1,2
type P4 cpu=4 mem=16Gi price=0.1 label:kubernetes.io/arch=arm64
pool web require:kubernetes.io/arch=In:amd64
pod mistyped cpu=1 require:topology.kubernetes.io/zne=In:1
pods apart x3 cpu=3 label:app=apart anti-affinity=zone
pod alone cpu=1 affinity=zone:app=nobody`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range schedule.Solve(script.Snapshot()).Unplaced {
		got = append(got, u.Pods[0].Name+": "+provision.Explain(u))
	}
	const start = `: 0/1 nodepools can host it: pool "web": 3 offerings → 2 after its own Requirements → 0 after `
	want := []string{
		"apart-3" + start + "Topology: unsatisfiable topology constraint for pod anti-affinity, key=topology.kubernetes.io/zone (counts = [1:1 2:1], podDomains = [1 2])",
		"alone" + start + "Topology (pod affinity over topology.kubernetes.io/zone: no pod that it must join runs anywhere): unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone (podDomains = [1 2])",
		"mistyped" + start + `Requirements (topology.kubernetes.io/zne In [1]): incompatible requirements, label "topology.kubernetes.io/zne" does not have known values (typo of "topology.kubernetes.io/zone"?)`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A pod that fits nowhere gets one event with the reason; it is not repeated.
//
// Rule REASON-2.
func TestUnplaceablePodHearsWhyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		e.Create(controllertest.Pod("huge", "500", "1Gi"))
		e.Steps(30)
		synctest.Wait()
		texts := e.EventTexts("huge")
		if len(texts) != 1 || !strings.HasPrefix(texts[0], "FailedScheduling: Failed to schedule pod, 0/1 nodepools can host it: pool \"web\": 24 offerings → ") {
			t.Errorf("events: %q", texts)
		}
		if len(e.Claims()) != 0 {
			t.Error("an instance was launched for it anyway")
		}
		time.Sleep(5 * time.Minute)
		e.Step()
		synctest.Wait()
		if n := len(e.EventTexts("huge")); n != 2 {
			t.Errorf("%d events after five minutes more, want 2", n)
		}
	})
}

// A pod that no new node can run gets an event at once, with what to change.
//
// Rule POD-3, Rule REQUIREMENT-4, Rule VOLUME-2.
func TestRefusedPodsHearWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		change := map[string]func(*corev1.PodSpec){
			"Invalid: nodeSelector: using label kubernetes.io/hostname is not allowed": func(s *corev1.PodSpec) {
				s.NodeSelector = map[string]string{corev1.LabelHostname: "n1"}
			},
			"Invalid: nodeSelector: using label karpenter.sh/registered is not allowed": func(s *corev1.PodSpec) {
				s.NodeSelector = map[string]string{karpv1.NodeRegisteredLabelKey: "true"}
			},
			"Unsupported: resource claims (dynamic resource allocation) are not yet supported": func(s *corev1.PodSpec) {
				s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
			},
			"incompatible volume requirements, PersistentVolumeClaim default/data does not exist": func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
			},
		}
		names := map[string]string{}
		for want, change := range change {
			names[want] = fmt.Sprintf("pod-%d", len(names))
			pod := controllertest.Pod(names[want], "1", "1Gi")
			change(&pod.Spec)
			e.Create(pod)
		}
		e.Steps(3)
		synctest.Wait()
		for want, name := range names {
			if texts := e.EventTexts(name); len(texts) != 1 || !strings.HasPrefix(texts[0], "FailedScheduling: Failed to schedule pod, "+want) {
				t.Errorf("events %q, want %q", texts, want)
			}
		}
		if n := len(e.Claims()); n != 0 {
			t.Errorf("%d instances were launched anyway", n)
		}
	})
}

// No further node is launched for pods whose nodes are still starting.
//
// Rule LAUNCH-2.
func TestNoBatchLaunchesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{Create: time.Minute})
		e.Create(controllertest.Pool("web", "30s"))
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			e.Create(controllertest.Pod(name, "31", "1Gi"))
			e.Steps(3)
		}
		e.Steps(40)
		if got := len(e.Claims()); got != 5 {
			t.Errorf("%d claims for 5 pods that each fill an instance", got)
		}
	})
}

// A stock-out deletes the claim and leads to another offering.
//
// Rule LAUNCH-4.
func TestStockOutLeadsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "30s"))
		pod := controllertest.Pod("a", "1", "1Gi")
		pod.Spec.NodeSelector = map[string]string{karpv1.CapacityTypeLabelKey: "spot"}
		e.Create(pod)
		e.Cloud.StartOutage(memory.Outage{CapacityType: "spot", Late: true})
		e.Until(30, "an event about it", func() bool {
			synctest.Wait()
			return slices.ContainsFunc(allEvents(e), func(s string) bool { return strings.HasPrefix(s, "InsufficientCapacityError") })
		})
		e.Cloud.EndOutages()
		e.Restart() // the provider forgets what it learned
		e.Until(60, "an initialized claim", func() bool { e.Join(); return len(e.Nodes()) == 1 })
		if got := len(e.Cloud.ProviderIDs()); got != 1 {
			t.Errorf("%d instances", got)
		}
	})
}

// A node has the labels for which its pool's requirements allow one value: otherwise the
// scheduler would never put the pod there.
//
// Rule REQUIREMENT-3.
func TestRequirementsBecomeLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		pool := controllertest.Pool("web", "30s")
		pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			{Key: "team", Operator: corev1.NodeSelectorOpIn, Values: []string{"red", "blue"}},
			{Key: "tier", Operator: corev1.NodeSelectorOpIn, Values: []string{"front"}},
		}
		e.Create(pool)
		pod := controllertest.Pod("a", "1", "1Gi")
		pod.Spec.NodeSelector = map[string]string{"team": "blue"}
		e.Create(pod)
		e.Until(60, "a registered node", func() bool {
			e.Join()
			return len(e.Nodes()) == 1 && e.Nodes()[0].Labels[karpv1.NodeRegisteredLabelKey] == "true"
		})
		if labels := e.Nodes()[0].Labels; labels["team"] != "blue" || labels["tier"] != "front" {
			t.Errorf("the node's labels: %v", labels)
		}
	})
}

// A node that registers and never becomes ready is waited for, but not for ever.
//
// Rule LAUNCH-2.
func TestNodeThatNeverGetsReadyIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Pace = 10 * time.Second
		e.Create(controllertest.Pool("web", "30s"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(10, "a node", func() bool { e.Join(); return len(e.Nodes()) == 1 })
		node := e.Nodes()[0]
		node.Status.Conditions[0].Status = corev1.ConditionFalse
		if err := e.API.Status().Update(context.Background(), &node); err != nil {
			t.Fatal(err)
		}
		e.Steps(80)
		if got := len(e.Claims()); got != 1 {
			t.Errorf("%d claims after 13 minutes, want 1", got)
		}
		e.Steps(20)
		if got := len(e.Claims()); got != 2 {
			t.Errorf("%d claims after 16 minutes, want 2", got)
		}
	})
}

func allEvents(e *controllertest.Env) []string {
	var all []string
	for _, c := range e.EventNames() {
		all = append(all, e.EventTexts(c)...)
	}
	return all
}
