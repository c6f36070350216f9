// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"context"
	"maps"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/bench/upstream"
	"github.com/karve-dev/karve/bench/worlds"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
)

// upstreamPlan is what upstream's provisioner decides for the world.
func upstreamPlan(ctx context.Context, w *worlds.World) (schedule.Plan, error) {
	in := upstream.Objects{Types: w.Sold(), IgnorePreferences: w.Settings.Preferences == cluster.Ignore, RelaxMinValues: w.Settings.RelaxMinValues}
	in.Objects = append(in.Objects, copies(w.Namespaces)...)
	for _, p := range w.NodePools {
		in.Objects = append(in.Objects, validated(p))
	}
	for _, c := range w.NodeClaims {
		in.Objects = append(in.Objects, w.Launched(c).DeepCopy())
	}
	in.Objects = append(in.Objects, copies(w.Nodes)...)
	in.Objects = append(in.Objects, copies(w.CSINodes)...)
	in.Objects = append(in.Objects, copies(w.StorageClasses)...)
	in.Objects = append(in.Objects, copies(w.Volumes)...)
	in.Objects = append(in.Objects, copies(w.VolumeClaims)...)
	in.Objects = append(in.Objects, copies(w.DaemonSets)...)
	in.Objects = append(in.Objects, copies(w.Pods)...)
	plan, err := upstream.Provision(ctx, in)
	for _, l := range plan.Launches {
		maps.DeleteFunc(l.Labels, func(key, _ string) bool { return madeUp(w.NodePools, l.Pool, key) })
	}
	return plan, err
}

// madeUp reports whether the NodePool says no value for the label. Where pods ask that such a label
// exists and is not one value, upstream gives the node a random number. Such pods count as refused.
func madeUp(pools []*karpv1.NodePool, name, key string) bool {
	i := slices.IndexFunc(pools, func(p *karpv1.NodePool) bool { return p.Name == name })
	template := pools[i].Spec.Template
	_, labelled := template.Labels[key]
	required := slices.ContainsFunc(template.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool {
		return r.Key == key && r.Operator == corev1.NodeSelectorOpIn
	})
	return !labelled && !required && key != karpv1.NodePoolLabelKey && key != karpv1.NodeClassLabelKey(template.Spec.NodeClassRef.GroupKind())
}

func copies[T client.Object](objects []T) []client.Object {
	var out []client.Object
	for _, o := range objects {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}

// validated is the NodePool with the conditions that upstream's controllers derive its readiness
// from: a world gives only the result.
func validated(p *karpv1.NodePool) *karpv1.NodePool {
	p = p.DeepCopy()
	conditions := p.Status.Conditions
	p.Status.Conditions = nil
	if slices.ContainsFunc(conditions, func(c status.Condition) bool { return c.Type == status.ConditionReady && c.IsTrue() }) {
		p.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
		p.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	}
	return p
}
