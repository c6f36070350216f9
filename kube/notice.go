package kube

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// A NoticeKind is what the cloud is about to do to a machine, as Azure's Scheduled
// Events name it.
type NoticeKind string

// Kinds of Notice. Whatever else a node says is none.
const (
	NoticePreempt   NoticeKind = "Preempt"   // a spot machine is taken back
	NoticeTerminate NoticeKind = "Terminate" // somebody deletes the machine
	NoticeRedeploy  NoticeKind = "Redeploy"  // it moves to another host; its local disks are lost
	NoticeReboot    NoticeKind = "Reboot"    // it starts anew
	NoticeFreeze    NoticeKind = "Freeze"    // it stands still for some seconds
)

// What tells of a Notice on a node.
const (
	// ConditionPreemption is set by the problem detector of AKS images for spot machines,
	// for evictions and for mere advice to move, which only the message tells apart.
	ConditionPreemption corev1.NodeConditionType = "PreemptionScheduled"
	// ConditionVMEvent is set by the detector of older images, for events of every kind.
	ConditionVMEvent corev1.NodeConditionType = "VMEventScheduled"
	// InterruptionTaint is put on a node by whoever reads its machine's Scheduled Events
	// directly; its value is the NoticeKind, and its node's LeavesAtAnnotation says when.
	InterruptionTaint = "karve.dev/interruption"
	// LeavesAtAnnotation is the RFC 3339 time before which nothing happens to the machine.
	LeavesAtAnnotation = "karve.dev/leaves-at"
)

// InterruptedAnnotation of a NodeClaim says why its machine goes without being asked: a
// NoticeKind, or that it is gone already. Room for its pods is bought before other room.
const InterruptedAnnotation = "karve.dev/interrupted"

// Interrupted reports whether the claim's machine goes without being asked. The claim may be nil.
func Interrupted(c *karpv1.NodeClaim) bool {
	return c != nil && c.Annotations[InterruptedAnnotation] != ""
}

// ConditionMaintenance of a NodeClaim is True while its machine will be restarted, moved or
// deleted from outside, and there is time to replace it first; the NoticeKind is its reason.
const ConditionMaintenance = "karve.dev/Maintenance"

// ConditionProviderIDRecognized of a NodeClaim is False when its provider ID is none that its
// cloud issues: no machine can be found, or ended, by it.
const ConditionProviderIDRecognized = "karve.dev/ProviderIDRecognized"

// A Notice is the cloud's announcement that it will disturb a node's machine.
type Notice struct {
	Kind NoticeKind
	// At is the earliest time it happens; zero when that is not told or cannot be read.
	At time.Time
	// Started says that it is happening already.
	Started bool
	// EventID is Azure's name for the event; empty when it is not told.
	EventID string
}

// NoticeOf reads what a node says of its machine's near end; false when it says
// nothing of the kind. The taint of an agent goes before what the detector says: it
// is younger, and says exactly when.
func NoticeOf(n *corev1.Node) (Notice, bool) {
	for _, t := range n.Spec.Taints {
		if kind := NoticeKind(t.Value); t.Key == InterruptionTaint && kind.known() {
			at, _ := time.Parse(time.RFC3339, n.Annotations[LeavesAtAnnotation]) // zero when unreadable
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
