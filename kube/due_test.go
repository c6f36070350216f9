// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/disrupt"
)

// Rule EXPIRE-1, Rule REPAIR-3.
func TestDues(t *testing.T) {
	born := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(h int) time.Time { return born.Add(time.Duration(h) * time.Hour) }
	claim := func(expireAfter string, conditions ...status.Condition) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(born)}}
		c.Spec.ExpireAfter = karpv1.MustParseNillableDuration(expireAfter)
		c.Status.Conditions = conditions
		return c
	}
	condition := func(kind, reason string, is metav1.ConditionStatus, hour int) status.Condition {
		return conditionSince(kind, reason, is, at(hour))
	}
	drifted := condition(karpv1.ConditionTypeDrifted, "ImageDrift", metav1.ConditionTrue, 5)
	for name, tc := range map[string]struct {
		claim *karpv1.NodeClaim
		soft  bool
		hour  int
		want  []disrupt.DueCause
	}{
		"nothing":                {claim("10h"), true, 9, nil},
		"drifted":                {claim("Never", drifted), false, 9, []disrupt.DueCause{{Cause: disrupt.Drifted, Detail: "ImageDrift", Since: at(5)}}},
		"no longer drifted":      {claim("Never", condition(karpv1.ConditionTypeDrifted, "ImageDrift", metav1.ConditionFalse, 5)), false, 9, nil},
		"expires forcefully":     {claim("1h"), false, 9, nil},
		"expired softly":         {claim("6h"), true, 6, []disrupt.DueCause{{Cause: disrupt.Expired, Detail: string(disrupt.Expired), Since: at(6)}}},
		"lives for ever":         {claim("Never"), true, 9999, nil},
		"broken":                 {claim("Never", condition(ConditionUnhealthy, "NodeHealthyFalse", metav1.ConditionTrue, 3)), false, 4, []disrupt.DueCause{{Cause: disrupt.Drifted, Detail: "NodeHealthyFalse", Since: at(3)}}},
		"several, by their ages": {claim("2h", drifted), true, 9, []disrupt.DueCause{{Cause: disrupt.Expired, Detail: string(disrupt.Expired), Since: at(2)}, {Cause: disrupt.Drifted, Detail: "ImageDrift", Since: at(5)}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, DueCauses(tc.claim, tc.soft, at(tc.hour))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func conditionSince(kind, reason string, is metav1.ConditionStatus, since time.Time) status.Condition {
	return status.Condition{Type: kind, Reason: reason, Status: is, LastTransitionTime: metav1.NewTime(since)}
}
