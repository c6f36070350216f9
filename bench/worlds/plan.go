// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// Plan shows every object to a new Mirror once, in the order of the World's fields, and plans.
func (w *World) Plan() schedule.Plan {
	m := state.NewMirror(nil)
	for _, show := range w.events() {
		show(m)
	}
	return solve(m)
}

// PlanShuffled shows the same objects in a random order, some of them first in an earlier version,
// with decisions and deleted objects in between.
func (w *World) PlanShuffled(r *rand.Rand) schedule.Plan {
	m := state.NewMirror(nil)
	events := w.events()
	r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	earlier := w.earlier(r)
	for _, show := range earlier[:len(earlier)/2] {
		show(m)
	}
	for i, show := range events {
		if i == len(events)/2 {
			solve(m)
		}
		show(m)
		if i%5 == 0 {
			show(m) // a resync
		}
	}
	return solve(m)
}

func solve(m *state.Mirror) (out schedule.Plan) {
	m.View(func(s *cluster.Snapshot) { out = schedule.Solve(s) })
	return out
}

type event func(*state.Mirror)

func (w *World) events() []event {
	sold := w.Sold()
	out := []event{
		func(m *state.Mirror) { m.SetSettings(w.Settings) },
		func(m *state.Mirror) { m.SetCatalog(class, sold, w.Quota) },
	}
	out = append(out, each(w.Namespaces, (*state.Mirror).SetNamespace)...)
	out = append(out, each(w.NodePools, (*state.Mirror).SetPool)...)
	out = append(out, each(w.NodeClaims, (*state.Mirror).SetClaim)...)
	out = append(out, each(w.Nodes, (*state.Mirror).SetNode)...)
	out = append(out, each(w.CSINodes, (*state.Mirror).SetCSINode)...)
	out = append(out, each(w.StorageClasses, (*state.Mirror).SetStorageClass)...)
	out = append(out, each(w.Volumes, (*state.Mirror).SetVolume)...)
	out = append(out, each(w.VolumeClaims, (*state.Mirror).SetPVC)...)
	out = append(out, each(w.DaemonSets, (*state.Mirror).SetDaemon)...)
	out = append(out, each(w.Buffers, func(m *state.Mirror, b *Buffer) { m.SetVirtualPods(nil, b.virtualPods()) })...)
	return append(out, each(w.Pods, func(m *state.Mirror, p *corev1.Pod) { m.SetPod(p, false) })...)
}

func each[T any](objects []T, show func(*state.Mirror, T)) []event {
	var out []event
	for _, o := range objects {
		out = append(out, func(m *state.Mirror) { show(m, o) })
	}
	return out
}

// Sold are the instance types with the NodeOverlays applied. No event carries NodeOverlays: a
// controller applies them to the catalog.
func (w *World) Sold() []offering.InstanceType {
	var overlays []offering.Overlay
	for _, o := range w.Overlays {
		if read, err := kube.Overlay(o); err == nil {
			overlays = append(overlays, read)
		}
	}
	if len(overlays) == 0 {
		return w.Types
	}
	out, _ := offering.ApplyOverlays([][]offering.InstanceType{w.Types}, overlays)
	return out[0].Types
}

// earlier are events before those of the world: nodes that were other nodes, pods that were pending, and
// objects that no longer exist.
func (w *World) earlier(r *rand.Rand) []event {
	var out []event
	for _, p := range w.Pods {
		if r.IntN(3) > 0 {
			continue
		}
		before := p.DeepCopy()
		before.Spec.NodeName, before.DeletionTimestamp = "", nil
		before.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
		gone := before.DeepCopy()
		gone.Name, gone.UID = "gone-"+gone.Name, types.UID("gone-"+string(gone.UID))
		out = append(out, func(m *state.Mirror) { m.SetPod(before, false) }, func(m *state.Mirror) { m.SetPod(gone, false); m.RemovePod(gone) })
	}
	for _, n := range w.Nodes {
		if r.IntN(3) > 0 {
			continue
		}
		before := n.DeepCopy()
		before.DeletionTimestamp, before.Status.Allocatable = nil, nil
		before.Spec.Taints = append(before.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute})
		gone := n.DeepCopy()
		gone.Name, gone.Spec.ProviderID = "gone-"+n.Name, ""
		out = append(out, func(m *state.Mirror) { m.SetNode(before) }, func(m *state.Mirror) { m.SetNode(gone); m.RemoveNode(gone) })
	}
	for _, c := range w.NodeClaims {
		if r.IntN(3) > 0 {
			continue
		}
		before := c.DeepCopy()
		before.Status.ProviderID, before.DeletionTimestamp = "", nil
		before.Status.Capacity, before.Status.Allocatable = nil, nil
		out = append(out, func(m *state.Mirror) { m.SetClaim(before) })
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Render writes all that a plan says, the words too.
func Render(p schedule.Plan) string {
	var b strings.Builder
	for _, n := range p.Nominations {
		fmt.Fprintf(&b, "on %s: %v\n", n.Node, n.Pods)
	}
	for _, l := range p.Launches {
		fmt.Fprintf(&b, "launch for %s: %v\n", l.Pool, l.Pods)
		fmt.Fprintf(&b, "  offerings %+v\n  rules %+v\n  labels %v taints %v\n  requests %v daemons %v relaxed %v\n", l.Offerings, l.Rules, l.Labels, l.Taints, l.Requests, l.Daemons, l.Relaxed)
		for _, r := range l.RunnersUp {
			fmt.Fprintf(&b, "  rather than %+v\n", r)
		}
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&b, "unplaced %v: %s: %s %+v\n", u.Pods, u.Because, u.Detail, u.Facts)
		for _, f := range u.Funnels {
			fmt.Fprintf(&b, "  %+v\n", f)
		}
	}
	fmt.Fprintf(&b, "preferences %+v, at least %d, cut short %v\n", p.Preferences, p.LowerBound, p.CutShort)
	return b.String()
}
