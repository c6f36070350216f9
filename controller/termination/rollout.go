// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// surgeAnnotation is set by users on a Deployment. karve writes the others into its pod template
// to restart it: the time, and the UID of the pod that has to move. It writes both in one patch,
// so that the same pod never causes two restarts.
const (
	surgeAnnotation     = "karve.dev/surge"
	surgedAtAnnotation  = "karve.dev/surged-at"
	surgedForAnnotation = "karve.dev/surged-for"
)

// annotationRevision is the annotation in which the Deployment's controller numbers ReplicaSets; a
// Deployment has the number of its newest one.
const annotationRevision = "deployment.kubernetes.io/revision"

// recordRestart changes the Deployment's pod template so that it restarts for a pod.
func recordRestart(d *appsv1.Deployment, p *corev1.Pod, now time.Time) {
	t := &d.Spec.Template
	if t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	t.Annotations[surgedAtAnnotation] = now.UTC().Format(time.RFC3339)
	t.Annotations[surgedForAnnotation] = string(p.UID)
}

// restartedFor reports whether the newest restart was for the pod, and when it began.
func restartedFor(d *appsv1.Deployment, pod types.UID) (time.Time, bool) {
	if d.Spec.Template.Annotations[surgedForAnnotation] != string(pod) {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, d.Spec.Template.Annotations[surgedAtAnnotation])
	return at, err == nil
}

// isNewest reports whether the ReplicaSet has the Deployment's current pod template: false until
// the Deployment's controller has observed the latest change.
func isNewest(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	return d.Status.ObservedGeneration >= d.Generation && rs.Annotations[annotationRevision] == d.Annotations[annotationRevision]
}

// whyUnfit returns why a restart of the Deployment would not start a replacement before
// the old pod ends; empty when it would.
func whyUnfit(d *appsv1.Deployment) string {
	s := d.Spec.Strategy
	if s.Type != "" && s.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return fmt.Sprintf("its strategy is %s, not RollingUpdate", s.Type)
	}
	if d.Spec.Paused {
		return "its rollouts are paused"
	}
	surge, unavailable, err := rolloutBounds(s.RollingUpdate)
	switch {
	case err != nil:
		return err.Error()
	case surge < 1:
		return "its maxSurge is 0, so there is never a second pod"
	case unavailable > 0:
		return fmt.Sprintf("its maxUnavailable is %d, so the old pod may go before the new one is ready", unavailable)
	}
	return ""
}

// rolloutBounds returns maxSurge and maxUnavailable for a single replica: percentages of the
// former round up, of the latter down, and the default of both is 25 %.
func rolloutBounds(r *appsv1.RollingUpdateDeployment) (surge, unavailable int, err error) {
	quarter := intstr.FromString("25%")
	most, fewest := &quarter, &quarter
	if r != nil && r.MaxSurge != nil {
		most = r.MaxSurge
	}
	if r != nil && r.MaxUnavailable != nil {
		fewest = r.MaxUnavailable
	}
	if surge, err = intstr.GetScaledValueFromIntOrPercent(most, 1, true); err != nil {
		return 0, 0, fmt.Errorf("its maxSurge %q cannot be read: %w", most.String(), err)
	}
	if unavailable, err = intstr.GetScaledValueFromIntOrPercent(fewest, 1, false); err != nil {
		return 0, 0, fmt.Errorf("its maxUnavailable %q cannot be read: %w", fewest.String(), err)
	}
	return surge, unavailable, nil
}

// rolloutFailure returns why a rollout under way will not end; empty while it may.
func rolloutFailure(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		switch {
		case d.Status.ObservedGeneration < d.Generation: // an earlier generation
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse,
			c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			return fmt.Sprintf("its rollout fails: %s: %s", c.Reason, c.Message)
		}
	}
	return ""
}
