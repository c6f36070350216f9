// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/karve-dev/karve/bench/judge"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/quantity"
	"github.com/karve-dev/karve/engine/schedule"
)

// TestJudgeRefusesSpoiltPlans moves pods of good plans to other nodes. Every filter that a wrong node
// can offend must refuse some of them: a judge that cannot refuse proves nothing.
func TestJudgeRefusesSpoiltPlans(t *testing.T) {
	missing := []string{
		names.NodeUnschedulable, names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread,
		names.InterPodAffinity, judge.Plan,
	}
	for seed := uint64(0); seed < 1500 && len(missing) > 0; seed++ {
		w := Random(seed)
		plan, ok := spoilt(w, w.Plan(), rand.New(rand.NewPCG(seed, 7)))
		if !ok {
			continue
		}
		for _, no := range JudgePlan(w, plan, seed).Refused {
			missing = slices.DeleteFunc(missing, func(plugin string) bool { return plugin == no.Plugin })
		}
	}
	for _, plugin := range missing {
		t.Errorf("%s refuses no spoilt plan", plugin)
	}
}

// TestJudgeRefusesVolumes plans a pod onto a node where its volume cannot be mounted.
func TestJudgeRefusesVolumes(t *testing.T) {
	for plugin, spoil := range map[string]func(g *generator, pod *corev1.Pod){
		names.VolumeZone: func(g *generator, _ *corev1.Pod) {
			g.volumeClaim("default", "data", corev1.ReadWriteOnce, 2, []string{"z2"})
		},
		names.VolumeBinding: func(g *generator, _ *corev1.Pod) {
			g.volumeClaim("default", "data", corev1.ReadWriteOnce, 3, []string{"z2"})
		},
		names.NodeVolumeLimits: func(g *generator, _ *corev1.Pod) {
			g.volumeClaim("default", "data", corev1.ReadWriteOnce, 5, nil)
			*g.w.CSINodes[0].Spec.Drivers[0].Allocatable.Count = 0
		},
		names.VolumeRestrictions: func(g *generator, pod *corev1.Pod) {
			g.volumeClaim("default", "data", corev1.ReadWriteOncePod, 4, nil)
			user := pod.DeepCopy()
			user.Name, user.UID, user.Spec.NodeName = "user", "user", "n1"
			g.w.Pods = append(g.w.Pods, user)
		},
		"": func(g *generator, _ *corev1.Pod) {
			g.volumeClaim("default", "data", corev1.ReadWriteOnce, 3, []string{"z1"})
		},
	} {
		g := &generator{Rand: rand.New(rand.NewPCG(1, 1)), w: &World{}, used: map[string]corev1.ResourceList{}}
		g.namespaces()
		node, csi := judge.NewNode("n1", map[string]string{corev1.LabelHostname: "n1", corev1.LabelTopologyZone: "z1"}, nil, quantity.Amounts{quantity.NamePods: 5, quantity.Attachable + disk: 3})
		g.addNode(node)
		g.w.CSINodes = append(g.w.CSINodes, csi)
		pod := &corev1.Pod{ObjectMeta: meta("default", "p"), Spec: g.plainSpec()}
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		spoil(g, pod)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: corev1.PodReasonUnschedulable}}
		g.w.Pods = append(g.w.Pods, pod)
		onIt := schedule.Plan{Nominations: []schedule.Nomination{{Node: "n1", Pods: []cluster.PodRef{{Namespace: "default", Name: "p", UID: "p"}}}}}
		got := ""
		if v := JudgePlan(g.w, onIt, 1); len(v.Refused) > 0 {
			got = v.Refused[0].Plugin
		}
		if got != plugin {
			t.Errorf("refused by %q, want %q", got, plugin)
		}
		if v := Judge(g.w, 1); !v.OK() {
			t.Errorf("karve's own plan: %s", v)
		}
	}
}

// spoilt moves one pod of the plan to a node where the plan does not have it; false when there is
// none.
func spoilt(w *World, p schedule.Plan, r *rand.Rand) (schedule.Plan, bool) {
	p.Nominations, p.Launches = slices.Clone(p.Nominations), slices.Clone(p.Launches)
	for _, n := range w.Nodes {
		key := n.Name
		if c := w.claimOf(n); c != nil {
			key = c.Name
		}
		if !slices.ContainsFunc(p.Nominations, func(x schedule.Nomination) bool { return x.Node == key }) {
			p.Nominations = append(p.Nominations, schedule.Nomination{Node: key})
		}
	}
	var groups []*[]cluster.PodRef
	for i := range p.Nominations {
		groups = append(groups, &p.Nominations[i].Pods)
	}
	for i := range p.Launches {
		groups = append(groups, &p.Launches[i].Pods)
	}
	if len(groups) < 2 {
		return p, false
	}
	from, to := groups[r.IntN(len(groups))], groups[r.IntN(len(groups))]
	if from == to || len(*from) == 0 {
		return p, false
	}
	i := r.IntN(len(*from))
	moved := (*from)[i]
	*from = slices.Concat((*from)[:i], (*from)[i+1:])
	*to = append(slices.Clone(*to), moved)
	return p, true
}

// TestJudgeFindsPodsLeftOut takes pods out of good plans: the node that would have taken one is
// found again, an existing one as well as one that must be launched.
func TestJudgeFindsPodsLeftOut(t *testing.T) {
	nodes, launches, taken := 0, 0, 0
	for seed := range uint64(300) {
		w := Random(seed)
		plan := w.Plan()
		plan.Nominations, plan.Launches = slices.Clone(plan.Nominations), slices.Clone(plan.Launches)
		var out []cluster.PodRef
		switch {
		case len(plan.Launches) > 0 && seed%2 == 0:
			out = plan.Launches[len(plan.Launches)-1].Pods
			plan.Launches = plan.Launches[:len(plan.Launches)-1]
		case len(plan.Nominations) > 0:
			out = plan.Nominations[0].Pods
			plan.Nominations = plan.Nominations[1:]
		default:
			continue
		}
		taken++
		plan.Unplaced = append(slices.Clone(plan.Unplaced), schedule.Unplaced{Pods: out, Because: "taken out"})
		for _, l := range JudgePlan(w, plan, seed).LeftOut {
			if l.Because == "taken out" && l.Launch {
				launches++
			} else if l.Because == "taken out" {
				nodes++
			}
		}
	}
	t.Logf("%d plans, %d pods would fit on nodes, %d on launches", taken, nodes, launches)
	if nodes < taken/4 || launches < taken/8 {
		t.Error("too few pods are found")
	}
}

// TestJudgeHoldsLimits raises a launch beyond the NodePool's limits.
func TestJudgeHoldsLimits(t *testing.T) {
	for seed := range uint64(500) {
		w := Random(seed)
		plan := w.Plan()
		i := slices.IndexFunc(plan.Launches, func(l schedule.Launch) bool { return len(w.pool(l.Pool).Spec.Limits) > 0 })
		if i < 0 {
			continue
		}
		for range 20 {
			empty := plan.Launches[i]
			empty.Pods = nil
			plan.Launches = append(plan.Launches, empty)
		}
		v := JudgePlan(w, plan, seed)
		if !slices.ContainsFunc(v.Refused, func(r judge.Rejection) bool { return strings.Contains(r.Reason, "limit") }) {
			t.Fatalf("seed %d: 20 more launches break no limit: %s", seed, v)
		}
		return
	}
	t.Fatal("no world launches nodes under limits")
}

// TestOrderIsCompared: two plans that differ in one word differ.
func TestOrderIsCompared(t *testing.T) {
	for seed := uint64(1); ; seed++ {
		plan := Random(seed).Plan()
		if len(plan.Unplaced) == 0 {
			continue
		}
		want := Render(plan)
		plan.Unplaced = slices.Clone(plan.Unplaced)
		plan.Unplaced[0].Detail += "."
		if got := Render(plan); got == want || difference(want, got) == "" {
			t.Error("another word in a reason is not seen")
		}
		return
	}
}

// TestShrinkKeepsTheFailure: everything unrelated to a failure goes, what it needs stays.
func TestShrinkKeepsTheFailure(t *testing.T) {
	fails := func(w *World) bool { return len(w.NodePools) > 0 && len(w.Pods) > 0 && w.Pods[0].Labels["app"] != "" }
	w := Random(3)
	for seed := uint64(3); !fails(w); seed++ {
		w = Random(seed)
	}
	before := w.Text()
	small := Shrink(w, 4000, fails)
	if !fails(small) || len(small.Pods) != 1 || len(small.NodePools) != 1 || len(small.Nodes)+len(small.Types) != 0 {
		t.Errorf("shrunk to:\n%s", small.Text())
	}
	if w.Text() != before {
		t.Error("shrinking changed the world itself")
	}
}
