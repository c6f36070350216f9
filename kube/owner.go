// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// PodsOfReplicaSet is how many pods the ReplicaSet keeps, or would if it could: none while the API
// server refuses those that it lacks (because of a ResourceQuota, for instance), as nobody knows
// when these will come.
func PodsOfReplicaSet(s *appsv1.ReplicaSet) int {
	for _, c := range s.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return 0
		}
	}
	return replicas(s.DeletionTimestamp, s.Spec.Replicas)
}

// PodsOfStatefulSet is how many pods the StatefulSet keeps.
func PodsOfStatefulSet(s *appsv1.StatefulSet) int {
	return replicas(s.DeletionTimestamp, s.Spec.Replicas)
}

// PodsOfJob is how many pods the Job is to have at a time: its parallelism, and no more than it has
// completions left. A Job without completions starts none once one has succeeded.
func PodsOfJob(j *batchv1.Job) int {
	for _, c := range j.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget || c.Type == batchv1.JobSuccessCriteriaMet) && c.Status == corev1.ConditionTrue {
			return 0
		}
	}
	if ptr.Deref(j.Spec.Suspend, false) {
		return 0
	}
	n := replicas(j.DeletionTimestamp, j.Spec.Parallelism)
	if j.Spec.Completions != nil {
		return max(0, min(n, int(*j.Spec.Completions)-succeeded(j)))
	}
	if succeeded(j) > 0 {
		return 0
	}
	return n
}

// succeeded is how many pods of the Job have, also those that its controller has yet to count.
func succeeded(j *batchv1.Job) int {
	n := int(j.Status.Succeeded)
	if u := j.Status.UncountedTerminatedPods; u != nil {
		n += len(u.Succeeded)
	}
	return n
}

func replicas(deleted *metav1.Time, wanted *int32) int {
	if deleted != nil {
		return 0
	}
	return max(0, int(ptr.Deref(wanted, 1)))
}

// StripOwner is a cache transform: of a ReplicaSet, a StatefulSet or a Job it keeps what PodsOf… reads.
// A cluster has ten old ReplicaSets for each Deployment, with a pod template each.
func StripOwner(o any) (any, error) {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		out := &appsv1.ReplicaSet{ObjectMeta: identityOf(&o.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas}}
		out.Status.Conditions = o.Status.Conditions
		return out, nil
	case *appsv1.StatefulSet:
		return &appsv1.StatefulSet{ObjectMeta: identityOf(&o.ObjectMeta), Spec: appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas}}, nil
	case *batchv1.Job:
		out := &batchv1.Job{ObjectMeta: identityOf(&o.ObjectMeta), Spec: batchv1.JobSpec{Parallelism: o.Spec.Parallelism, Completions: o.Spec.Completions, Suspend: o.Spec.Suspend}}
		out.Status.Succeeded, out.Status.Conditions = int32(succeeded(o)), o.Status.Conditions
		return out, nil
	}
	return nil, fmt.Errorf("a %T owns no pods", o)
}

func identityOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp}
}
