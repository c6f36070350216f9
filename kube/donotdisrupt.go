// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// DoNotDisrupt reports whether the pod's annotation forbids disruption: "true" always does, a
// duration does until that long after the pod started. A value that cannot be read forbids
// nothing.
func DoNotDisrupt(p *corev1.Pod, now time.Time) bool {
	value, ok := p.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if !ok {
		return false
	}
	if value == "true" {
		return true
	}
	d, err := protectionPeriod(value)
	if err != nil {
		return false
	}
	return p.Status.StartTime == nil || now.Before(p.Status.StartTime.Add(d))
}

// InvalidDoNotDisrupt returns the error in the pod's do-not-disrupt annotation, which then
// forbids nothing; nil when there is no error.
func InvalidDoNotDisrupt(p *corev1.Pod) error {
	value, ok := DoNotDisruptValue(p)
	if !ok || value == "true" {
		return nil
	}
	_, err := protectionPeriod(value)
	return err
}

// protectionPeriod reads for how long after its start a pod must not be disrupted.
func protectionPeriod(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("failed to parse %q as a duration: %w", value, err)
	}
	if d <= 0 {
		return 0, fmt.Errorf("duration %q must be positive", value)
	}
	return d, nil
}

// ProtectedUntil is when the pod's annotation stops protecting it; zero when it does not end by
// itself.
func ProtectedUntil(p *corev1.Pod) time.Time {
	value, ok := DoNotDisruptValue(p)
	if !ok || value == "true" || p.Status.StartTime == nil {
		return time.Time{}
	}
	d, err := protectionPeriod(value)
	if err != nil {
		return time.Time{}
	}
	return p.Status.StartTime.Add(d)
}

// DoNotDisruptValue is the value of the pod's do-not-disrupt annotation; false when it has none.
func DoNotDisruptValue(p *corev1.Pod) (value string, ok bool) {
	value, ok = p.Annotations[karpv1.DoNotDisruptAnnotationKey]
	return value, ok
}
