// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload names what a pod belongs to, across the objects that controllers make anew each time: a
// Deployment's ReplicaSets are one workload, and so are a CronJob's Jobs.
type Workload struct{ Namespace, Kind, Name string }

// WorkloadOf is the workload of the pod; false when no controller owns it.
func WorkloadOf(p *corev1.Pod) (w Workload, ok bool) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return Workload{}, false
	}
	w = Workload{p.Namespace, ref.Kind, ref.Name}
	switch ref.Kind {
	case "ReplicaSet":
		// The Deployment controller names its ReplicaSets after this label.
		if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
			if name, cut := strings.CutSuffix(ref.Name, "-"+hash); cut {
				w.Kind, w.Name = "Deployment", name
			}
		}
	case "Job":
		if name := withoutNumber(ref.Name); name != ref.Name {
			w.Kind, w.Name = "CronJob", name
		}
	}
	return w, true
}

// cronJobDigits is the least number of digits that the CronJob controller appends to the name of a
// Job: the minutes since 1970.
const cronJobDigits = 8

// withoutNumber is the name without the scheduled time that the CronJob controller appends.
func withoutNumber(name string) string {
	prefix := strings.TrimRight(name, "0123456789")
	if len(name)-len(prefix) < cronJobDigits || !strings.HasSuffix(prefix, "-") {
		return name
	}
	return strings.TrimSuffix(prefix, "-")
}

// Stayed is how long the pod has been on its node; before its kubelet has taken it, how long it has
// existed.
func Stayed(p *corev1.Pod, now time.Time) time.Duration {
	since := p.CreationTimestamp.Time
	if p.Status.StartTime != nil {
		since = p.Status.StartTime.Time
	}
	return max(0, now.Sub(since))
}

// LeftAt is when a pod that ended, or that is being deleted, did so or was asked to; zero when it
// does not say.
func LeftAt(p *corev1.Pod) time.Time {
	var at time.Time
	if d := p.DeletionTimestamp; d != nil {
		at = d.Time
		if s := p.DeletionGracePeriodSeconds; s != nil {
			at = at.Add(-time.Duration(*s) * time.Second)
		}
	}
	if !Terminal(p) {
		return at
	}
	var last time.Time
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range all {
			if ended := all[i].State.Terminated; ended != nil && ended.FinishedAt.After(last) {
				last = ended.FinishedAt.Time
			}
		}
	}
	if at.IsZero() || !last.IsZero() && last.Before(at) {
		return last
	}
	return at
}

// Disrupted reports whether something took the pod from its node: an eviction, preemption, a taint, or
// the loss of the node. A pod without it ended by itself, or its controller deleted it.
func Disrupted(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
