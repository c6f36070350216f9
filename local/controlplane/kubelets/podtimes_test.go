// SPDX-License-Identifier: Apache-2.0

package kubelets

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"
)

// next is the stage that a pod is in, and after how long it is played.
func next(t *testing.T, p *corev1.Pod, now time.Time) (stage string, after time.Duration) {
	t.Helper()
	all, err := loadStages()
	if err != nil {
		t.Fatal(err)
	}
	for ref, list := range all {
		if ref.Kind != "Pod" {
			continue
		}
		life, err := lifecycle.NewLifecycle(list)
		if err != nil {
			t.Fatal(err)
		}
		event := &lifecycle.Event{Labels: p.Labels, Annotations: p.Annotations, Data: p}
		possible, err := life.ListAllPossible(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		if len(possible) == 0 {
			return "", 0
		}
		if len(possible) > 1 {
			t.Fatalf("%d stages for one pod, of which kwok would play one at random", len(possible))
		}
		after, _, err = possible[0].Delay(t.Context(), event, now)
		if err != nil {
			t.Fatalf("%s: %v", possible[0].Name(), err)
		}
		return possible[0].Name(), after
	}
	return "", 0
}

var began = time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)

// bound is a pod that was bound when it began, in its phase.
func bound(phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
	at := metav1.NewTime(began)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "0f8fad5b-d9cb-469f-a165-70867728950e", CreationTimestamp: at},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Image: "app"}, {Name: "side", Image: "proxy"}}},
		Status: corev1.PodStatus{Phase: phase, StartTime: &at, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at},
			{Type: corev1.PodReady, Status: ready, LastTransitionTime: at},
		}},
	}
}

func deleted(p *corev1.Pod, grace int64) *corev1.Pod {
	end := metav1.NewTime(began.Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &end, &grace
	return p
}

// Pods take their time as real ones do, and writes to a pod do not put off what is due.
//
// Rule DEMO-3.
func TestPodsTakeTheirTime(t *testing.T) {
	probed := func() *corev1.Pod {
		p := bound(corev1.PodRunning, corev1.ConditionFalse)
		p.Spec.Containers[0].StartupProbe = &corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 2}
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 1, PeriodSeconds: 3}
		p.Spec.Containers[1].ReadinessProbe = &corev1.Probe{}
		return p
	}
	hooked := func(hook corev1.LifecycleHandler, grace int64) *corev1.Pod {
		p := bound(corev1.PodRunning, corev1.ConditionTrue)
		p.Annotations = map[string]string{"karve.dev/simulated-shutdown-seconds": "2"}
		p.Spec.Containers[1].Lifecycle = &corev1.Lifecycle{PreStop: &hook}
		return deleted(p, grace)
	}
	sleep := corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 15}}
	command := corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "sleep 7; nginx -s quit"}}}
	other := corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/app", "drain"}}}
	annotated := func(p *corev1.Pod, key, value string) *corev1.Pod {
		p.Annotations = map[string]string{key: value}
		return p
	}
	job := deleted(bound(corev1.PodRunning, corev1.ConditionTrue), 1)
	yes := true
	job.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", Controller: &yes}}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		stage string
		after time.Duration
	}{
		"an image that takes long":       {annotated(bound(corev1.PodPending, corev1.ConditionFalse), "karve.dev/simulated-pull-seconds", "40"), "pod-run", 40 * time.Second},
		"probes":                         {probed(), "pod-ready", 11 * time.Second},
		"readiness as it is annotated":   {annotated(probed(), "karve.dev/simulated-ready-seconds", "90"), "pod-ready", 90 * time.Second},
		"ready":                          {bound(corev1.PodRunning, corev1.ConditionTrue), "", 0},
		"a preStop hook that sleeps":     {hooked(sleep, 30), "pod-delete", 17 * time.Second},
		"a preStop command that sleeps":  {hooked(command, 30), "pod-delete", 9 * time.Second},
		"a preStop command of its own":   {hooked(other, 30), "pod-delete", 2 * time.Second},
		"killed after its grace period":  {hooked(sleep, 10), "pod-delete", 10 * time.Second},
		"held by a finalizer":            {hooked(sleep, 0), "", 0},
		"a pod of a Job with one second": {job, "pod-delete-job", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			stage, after := next(t, tc.pod, began)
			if stage != tc.stage || after != tc.after {
				t.Fatalf("stage %q after %s, want %q after %s", stage, after, tc.stage, tc.after)
			}
			if stage == "" {
				return
			}
			if _, left := next(t, tc.pod, began.Add(time.Second)); left != after-time.Second {
				t.Errorf("a second later %s are left, want %s", left, after-time.Second)
			}
		})
	}
}

// Most images are there, some are pulled for a while, and the same pod takes as long again.
func TestImagePulls(t *testing.T) {
	const pods = 400
	var atOnce, long int
	for i := range pods {
		p := bound(corev1.PodPending, corev1.ConditionFalse)
		p.UID = types.UID(fmt.Sprintf("%08x-d9cb-469f-a165-%012x", i*2654435761%(1<<32), i*40503))
		stage, after := next(t, p, began)
		if _, again := next(t, p, began); stage != "pod-run" || after != again || after < 0 || after > 8*time.Second {
			t.Fatalf("pod %s: stage %q after %s, and then after %s", p.UID, stage, after, again)
		}
		if after == 0 {
			atOnce++
		}
		if after >= 4*time.Second {
			long++
		}
	}
	if atOnce < pods/2 || atOnce > pods*4/5 || long == 0 || long > pods/8 {
		t.Errorf("of %d pods %d run at once and %d after 4 s or more", pods, atOnce, long)
	}
}
