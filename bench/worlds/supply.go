// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/schedule"
)

// quotas: no launch takes quota that is not there.
func (j *judged) quotas() {
	left := j.quotaLeft()
	for _, l := range j.plan.Launches {
		for _, u := range j.quotaUses(l.Offerings) {
			if n, limited := left[u.Quota]; limited && n < 0 {
				j.fail(l.Pods, l.Pool, "the launches exceed quota %q by %d", u.Quota, -n)
			}
		}
	}
}

// quotaLeft is what the plan leaves of the quotas, each launch as its first offering. The cloud
// counts the NodeClaims that are launched.
func (j *judged) quotaLeft() map[string]int64 {
	left := map[string]int64{}
	take := func(refs []offering.Ref) {
		for _, u := range j.quotaUses(refs) {
			left[u.Quota] -= u.Amount
		}
	}
	for name, n := range j.w.Quota {
		left[name] = n
	}
	for _, c := range j.w.NodeClaims {
		if c.Status.ProviderID == "" {
			take(claimed(c))
		}
	}
	for _, l := range j.plan.Launches {
		take(l.Offerings)
	}
	for name := range left {
		if _, limited := j.w.Quota[name]; !limited {
			delete(left, name)
		}
	}
	return left
}

// quotaUses is what the first of the offerings takes.
func (j *judged) quotaUses(refs []offering.Ref) []offering.QuotaUse {
	if len(refs) == 0 {
		return nil
	}
	if _, o := j.sold.offering(refs[0].Type, refs[0].Zone, refs[0].CapacityType); o != nil {
		return o.QuotaUses
	}
	return nil
}

// claimed is the offering that a NodeClaim names.
func claimed(c *karpv1.NodeClaim) []offering.Ref {
	one := singleValues(c)
	return []offering.Ref{{Type: one[corev1.LabelInstanceTypeStable], Zone: one[corev1.LabelTopologyZone], CapacityType: one[karpv1.CapacityTypeLabelKey]}}
}

// singleValues are the labels of which a NodeClaim admits one value.
func singleValues(c *karpv1.NodeClaim) map[string]string {
	one := map[string]string{}
	for _, r := range c.Spec.Requirements {
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			one[r.Key] = r.Values[0]
		}
	}
	return one
}

// short reports whether a quota does not suffice for the use.
func short(left map[string]int64, u offering.QuotaUse) bool {
	n, limited := left[u.Quota]
	return limited && n < u.Amount
}

// unmetMinValues is a label of which the launch lists too few values; empty when there is none.
func (j *judged) unmetMinValues(pool *karpv1.NodePool, l schedule.Launch) string {
	if j.w.Settings.RelaxMinValues {
		return ""
	}
	var listed []candidate
	for _, ref := range l.Offerings {
		if t, o := j.sold.offering(ref.Type, ref.Zone, ref.CapacityType); o != nil {
			n, _ := j.newNode("", pool, t, o, l)
			listed = append(listed, candidate{node: n})
		}
	}
	return unmetMinValues(pool, listed)
}

// unmetMinValues is a label of which the candidates have fewer values than the NodePool asks for;
// empty when there is none.
func unmetMinValues(pool *karpv1.NodePool, listed []candidate) string {
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.MinValues == nil {
			continue
		}
		var values []string
		for _, c := range listed {
			if v, ok := c.node.Labels[r.Key]; ok && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) < *r.MinValues {
			return r.Key
		}
	}
	return ""
}
