// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/karve-dev/karve/local/cluster/clustertest"
)

// register creates a node as a node agent would: everything but conditions, and a
// resource that only a device plugin could have added.
func register(t *testing.T, client kubernetes.Interface, name string) *corev1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Create(t.Context(), unregistered(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func unregistered(name string) *corev1.Node {
	size := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceMemory:           resource.MustParse("16Gi"),
		corev1.ResourcePods:             resource.MustParse("30"),
		corev1.ResourceEphemeralStorage: resource.MustParse("128Gi"),
		gpu:                             resource.MustParse("2"),
	}
	allocatable := size.DeepCopy()
	allocatable[corev1.ResourceCPU] = resource.MustParse("3860m")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"topology.kubernetes.io/zone": "westeurope-1", corev1.LabelHostname: name},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "only", Value: name, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: allocatable,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: nodeIP},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", Architecture: "amd64", OperatingSystem: "linux"},
		},
	}
}

const gpu corev1.ResourceName = "nvidia.com/gpu"

const nodeIP = "10.224.0.7"

// pod requests a GPU and tolerates only the node named, so that tests can share a cluster.
func pod(name, node string) *corev1.Pod {
	one := corev1.ResourceList{gpu: resource.MustParse("1")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Tolerations:  []corev1.Toleration{{Key: "only", Value: node}},
			Containers: []corev1.Container{{
				Name: "app", Image: "example.com/app:1",
				Resources: corev1.ResourceRequirements{Requests: one, Limits: one},
			}},
		},
	}
}

func create(t *testing.T, client kubernetes.Interface, p *corev1.Pod) {
	t.Helper()
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// running waits for the pod and returns it as it runs.
func running(t *testing.T, client kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	var got *corev1.Pod
	clustertest.Eventually(t, "pod "+name+" running", func(ctx context.Context) (err error) {
		got, err = client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase is %q", got.Status.Phase)
		}
		return err
	})
	return got
}

// readiness is nil if the node's Ready condition has the status wanted.
func readiness(ctx context.Context, client kubernetes.Interface, name string, want corev1.ConditionStatus) error {
	got, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range got.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("conditions are %+v, want Ready=%s", got.Status.Conditions, want)
}

// renewed waits for the node's lease and returns when it was last renewed.
func renewed(t *testing.T, client kubernetes.Interface, name string) time.Time {
	t.Helper()
	var at time.Time
	clustertest.Eventually(t, "lease of "+name, func(ctx context.Context) error {
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			at = lease.Spec.RenewTime.Time
		}
		return err
	})
	return at
}
