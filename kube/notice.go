// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// NoticeKind is the kind of an event that the cloud announces for a node's instance, named as
// in Azure's Scheduled Events.
type NoticeKind string

// The kinds of Notice. Any other kind is ignored.
const (
	NoticePreempt   NoticeKind = "Preempt"   // a spot instance is evicted
	NoticeTerminate NoticeKind = "Terminate" // a user or service deletes the instance
	NoticeRedeploy  NoticeKind = "Redeploy"  // it is moved; its local disks are lost
	NoticeReboot    NoticeKind = "Reboot"    // it restarts
	NoticeFreeze    NoticeKind = "Freeze"    // it is paused for some seconds
)

// Where a Notice is found on a node.
const (
	// ConditionPreemption is set by the problem detector of AKS images for spot instances, both
	// for evictions and for mere advice to move; only the message distinguishes them.
	ConditionPreemption corev1.NodeConditionType = "PreemptionScheduled"
	// ConditionVMEvent is set by the detector of older images, for events of every kind.
	ConditionVMEvent corev1.NodeConditionType = "VMEventScheduled"
	// InterruptionTaint is put on a node by an agent that reads Scheduled Events on the instance.
	// Its value is the NoticeKind; the node's NotBeforeAnnotation says when.
	InterruptionTaint = "karve.dev/interruption"
)

// Interrupted reports whether the cloud interrupts the claim's node. The claim may be nil.
func Interrupted(c *karpv1.NodeClaim) bool {
	return c != nil && c.Annotations[InterruptedAnnotation] != ""
}

// Notice is the cloud's announcement of an event that interrupts or deletes a node's instance.
type Notice struct {
	Kind NoticeKind
	// At is the earliest time of the event; zero when the time is missing or cannot be read.
	At time.Time
	// Started says that it has begun.
	Started bool
	// EventID is Azure's name for the event; empty when it is missing.
	EventID string
}

// NoticeOf reads the Notice on a node; false when there is none. The taint of an agent takes
// precedence over the detector's conditions: it is newer and has the exact time.
func NoticeOf(n *corev1.Node) (Notice, bool) {
	for _, t := range n.Spec.Taints {
		if kind := NoticeKind(t.Value); t.Key == InterruptionTaint && kind.known() {
			at, _ := time.Parse(time.RFC3339, n.Annotations[NotBeforeAnnotation]) // zero when unreadable
			return Notice{Kind: kind, At: at}, true
		}
	}
	for _, kind := range []corev1.NodeConditionType{ConditionPreemption, ConditionVMEvent} {
		for _, c := range n.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				if notice, ok := noticeIn(c.Message); ok {
					return notice, true
				}
			}
		}
	}
	return Notice{}, false
}

// BelievedNotice reads the Notice on the claim's node that can be true; false when there is none. Only spot
// instances are evicted.
func BelievedNotice(n *corev1.Node, c *karpv1.NodeClaim) (Notice, bool) {
	notice, ok := NoticeOf(n)
	return notice, ok && !impossible(notice, c)
}

func impossible(n Notice, c *karpv1.NodeClaim) bool {
	capacityType := c.Labels[karpv1.CapacityTypeLabelKey]
	return n.Kind == NoticePreempt && capacityType != "" && capacityType != karpv1.CapacityTypeSpot
}

func (k NoticeKind) known() bool {
	switch k {
	case NoticePreempt, NoticeTerminate, NoticeRedeploy, NoticeReboot, NoticeFreeze:
		return true
	}
	return false
}

// The detector's text, as seen on AKS nodes: "Preempt Scheduled: Sat, 01 Aug 2026
// 05:41:02 GMT. … EventId: <id>", and "Preempt Started" with or without a colon. The
// advice begins with "SpotRebalanceRecommendation Advisory".
var (
	noticeStart = regexp.MustCompile(`^\s*([A-Za-z]+)\s+(Scheduled|Started)\s*[:.]`)
	noticeTime  = regexp.MustCompile(`^\s*[A-Z][a-z]{2},\s+(\d{1,2})\s+([A-Z][a-z]{2})\s+(\d{4})\s+(\d{2}:\d{2}:\d{2})\s+(?:GMT|UTC)\b`)
	noticeEvent = regexp.MustCompile(`EventId:\s*([0-9A-Za-z-]+)`)
)

func noticeIn(message string) (Notice, bool) {
	start := noticeStart.FindStringSubmatch(message)
	if start == nil || !NoticeKind(start[1]).known() {
		return Notice{}, false
	}
	notice := Notice{Kind: NoticeKind(start[1]), Started: start[2] == "Started"}
	if id := noticeEvent.FindStringSubmatch(message); id != nil {
		notice.EventID = id[1]
	}
	if when := noticeTime.FindStringSubmatch(message[len(start[0]):]); when != nil && !notice.Started {
		notice.At, _ = time.Parse("2 Jan 2006 15:04:05", strings.Join(when[1:], " ")) // zero when it is no date
	}
	return notice, true
}
