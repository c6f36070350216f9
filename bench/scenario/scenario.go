// SPDX-License-Identifier: Apache-2.0

// Package scenario builds the inputs of the benchmark: one set of Kubernetes
// objects and instance types per scenario, handed to both schedulers alike.
//
// Everything comes out of a fixed seed: the same scenario is the same objects,
// name for name, on every computer. The package knows neither scheduler and
// measures nothing.
package scenario

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/offering"
)

// Class is the node class of every NodePool of a scenario.
const Class = "default"

// Scenario is a cluster and its pending pods.
type Scenario struct {
	Name string
	// Types are the instance types that every NodePool can launch, subject to its requirements.
	Types      []offering.InstanceType
	Pools      []*karpv1.NodePool
	DaemonSets []*appsv1.DaemonSet
	// Nodes exist and are initialized, each with the NodeClaim of the same index;
	// Bound pods run on them.
	Nodes  []*corev1.Node
	Claims []*karpv1.NodeClaim
	Bound  []*corev1.Pod
	// Pending pods are to be placed.
	Pending []*corev1.Pod
	// PDBs hold for bound pods; only disruption looks at them.
	PDBs []*policyv1.PodDisruptionBudget
	// Settings are ours; upstream knows of them only whether preferences count.
	Settings cluster.Settings
}

// moment is when everything was created: no scheduler may look at a clock.
var moment = metav1.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Now is the time at which pods are read.
func Now() time.Time { return moment.Add(time.Hour) }

func meta(kind, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              name,
		UID:               types.UID(kind + "-" + name),
		CreationTimestamp: moment,
		Labels:            map[string]string{},
	}
}

// pool is a NodePool that is ready, without requirements or limits.
func pool(name string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: meta("pool", name)}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.azure.com", Kind: "AKSNodeClass", Name: Class}
	p.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
	p.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
	p.StatusConditions().SetTrue(karpv1.ConditionTypeNodeRegistrationHealthy)
	return p
}

// pending is a pod that kube-scheduler marked unschedulable.
func pending(name string, requests corev1.ResourceList) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta("pod", name)}
	p.Namespace = "default"
	p.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "registry.k8s.io/pause:3.10",
		Resources: corev1.ResourceRequirements{Requests: requests},
	}}
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	return p
}

func serial(prefix string, i int) string { return fmt.Sprintf("%s-%05d", prefix, i) }
