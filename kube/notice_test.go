// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/kube"
)

// Rule INTERRUPTION-1.
func TestNoticesOfTheProblemDetector(t *testing.T) {
	at := time.Date(2026, 8, 1, 5, 41, 2, 0, time.UTC)
	const id = "A1B2C3D4-E5F6-4A7B-8C9D-0E1F2A3B4C5D"
	for message, want := range map[string]kube.Notice{
		"Preempt Scheduled: Sat, 01 Aug 2026 05:41:02 GMT. For more information, see https://aka.ms/aks-spot-eviction. EventId: " + id: {Kind: kube.NoticePreempt, At: at, EventID: id},
		" Preempt  Scheduled:\tSat,  1 Aug 2026 05:41:02 UTC":                                                                          {Kind: kube.NoticePreempt, At: at},
		"Preempt Scheduled: Sat, 01 Aug 2026 05:41:02 GMT. DurationInSeconds: -1. For more information, see https://x EventId: a":      {Kind: kube.NoticePreempt, At: at, EventID: "a"},
		"Preempt Scheduled: soon. EventId: b":                                       {Kind: kube.NoticePreempt, EventID: "b"},
		"Preempt Scheduled: Sat, 32 Aug 2026 05:41:02 GMT.":                         {Kind: kube.NoticePreempt},
		"Preempt Scheduled: Sat, 01 Aug 2026 05:41:02 GMTx":                         {Kind: kube.NoticePreempt},
		"Preempt Started: . For more information, see https://x":                    {Kind: kube.NoticePreempt, Started: true},
		"Preempt Started. For more information, see https://x":                      {Kind: kube.NoticePreempt, Started: true},
		"Preempt Started: Sat, 01 Aug 2026 05:41:02 GMT.":                           {Kind: kube.NoticePreempt, Started: true},
		"Reboot Scheduled: Sat, 01 Aug 2026 05:41:02 GMT.":                          {Kind: kube.NoticeReboot, At: at},
		"SpotRebalanceRecommendation Advisory: Sat, 01 Aug 2026 05:41:02 GMT.":      {},
		"SpotRebalanceRecommendation Advisory: Preempt Scheduled: Sat, 01 Aug 2026": {},
		"SpotRebalanceRecommendation Scheduled: Sat, 01 Aug 2026 05:41:02 GMT.":     {},
		"Nothing: Preempt Scheduled: Sat, 01 Aug 2026 05:41:02 GMT.":                {},
		"NotPreempt Scheduled: Sat, 01 Aug 2026 05:41:02 GMT.":                      {},
		"Preempt ScheduledToo: Sat, 01 Aug 2026 05:41:02 GMT.":                      {},
		"Preempt Advisory: Sat, 01 Aug 2026 05:41:02 GMT.":                          {},
		"Timeout when running plugin check_scheduledevent_consolidated.sh":          {},
		"": {},
	} {
		for _, condition := range []corev1.NodeConditionType{kube.ConditionPreemption, kube.ConditionVMEvent} {
			n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: condition, Status: corev1.ConditionTrue, Message: message}}}}
			got, ok := kube.NoticeOf(n)
			if diff := cmp.Diff(want, got); diff != "" || ok != (want.Kind != "") {
				t.Errorf("%s %q is a notice: %v (-want +got):\n%s", condition, message, ok, diff)
			}
			n.Status.Conditions[0].Status = corev1.ConditionFalse
			if _, ok := kube.NoticeOf(n); ok {
				t.Errorf("%s %q that does not hold is a notice", condition, message)
			}
		}
	}
}

func TestNoticeOfAnAgentGoesFirst(t *testing.T) {
	at := time.Date(2026, 8, 1, 5, 41, 2, 0, time.UTC)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kube.NotBeforeAnnotation: at.Format(time.RFC3339)}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: kube.InterruptionTaint, Value: "Preempt", Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: kube.ConditionVMEvent, Status: corev1.ConditionTrue, Message: "Freeze Started."}}},
	}
	if got, ok := kube.NoticeOf(n); !ok || got.Kind != kube.NoticePreempt || !got.At.Equal(at) {
		t.Errorf("got %+v, %v", got, ok)
	}
	n.Annotations = nil
	if got, ok := kube.NoticeOf(n); !ok || got.Kind != kube.NoticePreempt || !got.At.IsZero() {
		t.Errorf("without a time: %+v, %v", got, ok)
	}
	n.Spec.Taints[0].Value = "whatever"
	if got, _ := kube.NoticeOf(n); got.Kind != kube.NoticeFreeze {
		t.Errorf("a taint of no kind hides the detector's word: %+v", got)
	}
}
