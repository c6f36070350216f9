// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How many pods a controller keeps, also by what the cache keeps of it.
//
// Rule PLAN-17.
func TestPodsOfOwners(t *testing.T) {
	replicaSet := func(change func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
		s := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(40))}}
		change(s)
		return s
	}
	job := func(change func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Parallelism: new(int32(40))}}
		change(j)
		return j
	}
	for name, c := range map[string]struct {
		owner any
		want  int
	}{
		"a ReplicaSet":     {replicaSet(func(*appsv1.ReplicaSet) {}), 40},
		"without a number": {replicaSet(func(s *appsv1.ReplicaSet) { s.Spec.Replicas = nil }), 1},
		"being deleted":    {replicaSet(func(s *appsv1.ReplicaSet) { s.DeletionTimestamp = new(metav1.Now()) }), 0},
		"refused by a ResourceQuota": {replicaSet(func(s *appsv1.ReplicaSet) {
			s.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue}}
		}), 0},
		"no longer refused": {replicaSet(func(s *appsv1.ReplicaSet) {
			s.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionFalse}}
		}), 40},
		"a StatefulSet":      {&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}}, 3},
		"a Job":              {job(func(*batchv1.Job) {}), 40},
		"a Job near its end": {job(func(j *batchv1.Job) { j.Spec.Completions, j.Status.Succeeded = new(int32(100)), 95 }), 5},
		"with pods not counted yet": {job(func(j *batchv1.Job) {
			j.Spec.Completions, j.Status.Succeeded = new(int32(100)), 95
			j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a", "b"}}
		}), 3},
		"a Job that has ended": {job(func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		}), 0},
		"a suspended Job":            {job(func(j *batchv1.Job) { j.Spec.Suspend = new(true) }), 0},
		"a work queue that is empty": {job(func(j *batchv1.Job) { j.Status.Succeeded = 1 }), 0},
	} {
		stripped, err := StripOwner(c.owner)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []any{c.owner, stripped} {
			if got := podsOf(o); got != c.want {
				t.Errorf("%s keeps %d pods, want %d", name, got, c.want)
			}
		}
	}
	if _, err := StripOwner(&corev1.Pod{}); err == nil {
		t.Error("a Pod counts as an owner of pods")
	}
}

func podsOf(o any) int {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		return PodsOfReplicaSet(o)
	case *appsv1.StatefulSet:
		return PodsOfStatefulSet(o)
	}
	return PodsOfJob(o.(*batchv1.Job))
}
