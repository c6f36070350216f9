// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/karve-dev/karve/local/cluster/clustertest"
	"github.com/karve-dev/karve/local/storage"
)

// testCluster is a control plane with the driver.
type testCluster struct {
	t      *testing.T
	client kubernetes.Interface
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	_, client := clustertest.Start(t, t.TempDir())
	if err := storage.Install(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	driver, err := storage.New(storage.Options{Client: client, ResourceGroupID: "/subscriptions/s/resourceGroups/g", Delay: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- driver.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &testCluster{t, client}
}

// node registers a node of a zone with the driver on it, as a node agent would.
func (w *testCluster) node(name, zone string) {
	w.t.Helper()
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("30")}
	node, err := w.client.CoreV1().Nodes().Create(w.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone, storage.TopologyKey: zone},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	limit := int32(8)
	_, err = w.client.StorageV1().CSINodes().Create(w.t.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: storage.DriverName, NodeID: name, TopologyKeys: []string{storage.TopologyKey},
			Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

const database = `
metadata: {name: db}
spec:
  replicas: 3
  podManagementPolicy: Parallel
  serviceName: db
  selector: {matchLabels: {app: db}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}
      containers: [{name: main, image: none, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: managed-csi, accessModes: [ReadWriteOnce], resources: {requests: {storage: 8Gi}}}
`

// From claims to volumes in the zones of their pods, attached; a pod is bound again in
// its volume's zone; and nothing is left when the workload is deleted.
func TestLifeOfVolumesOnARealControlPlane(t *testing.T) {
	w := newTestCluster(t)
	for i := 1; i <= 3; i++ {
		w.node(fmt.Sprintf("node-%d", i), fmt.Sprintf("eastus-%d", i))
	}
	db := &appsv1.StatefulSet{}
	if err := yaml.UnmarshalStrict([]byte(database), db); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.AppsV1().StatefulSets("default").Create(t.Context(), db, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		clustertest.Eventually(w.t, "starting the database", func(ctx context.Context) error { return w.atHome(ctx, i) })
	}
	clustertest.Eventually(w.t, "attaching", func(ctx context.Context) error { return w.attached(ctx, 3) })

	home, err := w.client.CoreV1().Pods("default").Get(t.Context(), "db-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	zone := w.zoneOf(home.Spec.NodeName)
	w.lose(home)
	clustertest.Eventually(w.t, "detaching from the node that goes", func(ctx context.Context) error { return w.attached(ctx, 2) })
	w.node("another", zone)
	clustertest.Eventually(w.t, "coming back to the volume's zone", func(ctx context.Context) error { return w.atHome(ctx, 0) })
	clustertest.Eventually(w.t, "attaching to the new node", func(ctx context.Context) error { return w.attached(ctx, 3) })

	foreground := metav1.DeletePropagationForeground
	if err := w.client.AppsV1().StatefulSets("default").Delete(t.Context(), "db", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(w.t, "removing volumes", w.empty)
}

// atHome is nil when a pod of the database runs, with its volume, in that volume's zone.
func (w *testCluster) atHome(ctx context.Context, i int) error {
	pod, err := w.client.CoreV1().Pods("default").Get(ctx, fmt.Sprintf("db-%d", i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return fmt.Errorf("pod %s is %s: %v", pod.Name, pod.Status.Phase, pod.Status.Conditions)
	}
	claim, err := w.client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "data-"+pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if claim.Status.Phase != corev1.ClaimBound {
		return fmt.Errorf("claim %s is %s", claim.Name, claim.Status.Phase)
	}
	volume, err := w.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	zone := storage.ZoneOf(volume)
	if have := w.zoneOf(pod.Spec.NodeName); have != zone {
		return fmt.Errorf("pod %s runs in %q, its volume lies in %q", pod.Name, have, zone)
	}
	return nil
}

func (w *testCluster) zoneOf(node string) string {
	w.t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(w.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return n.Labels[corev1.LabelTopologyZone]
}

// lose cordons a pod's node and takes the pod off it.
func (w *testCluster) lose(p *corev1.Pod) {
	w.t.Helper()
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := w.client.CoreV1().Nodes().Patch(w.t.Context(), p.Spec.NodeName, types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.CoreV1().Pods("default").Delete(w.t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// attached is nil when exactly n volumes are attached and none is on its way.
func (w *testCluster) attached(ctx context.Context, n int) error {
	list, err := w.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var have []string
	done := 0
	for _, a := range list.Items {
		have = append(have, fmt.Sprintf("%s on %s attached=%v", *a.Spec.Source.PersistentVolumeName, a.Spec.NodeName, a.Status.Attached))
		if a.Status.Attached && a.DeletionTimestamp == nil {
			done++
		}
	}
	if done != n || len(list.Items) != n {
		return fmt.Errorf("want %d: %s", n, strings.Join(have, ", "))
	}
	return nil
}

func (w *testCluster) empty(ctx context.Context) error {
	volumes, err := w.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if n := len(volumes.Items); n > 0 {
		return fmt.Errorf("%d volumes are left, the first is %s", n, volumes.Items[0].Status.Phase)
	}
	return w.attached(ctx, 0)
}
