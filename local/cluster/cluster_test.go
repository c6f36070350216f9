package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/karve-dev/karve/local/cluster"
)

// patience is how long a test waits for the cluster to do something. It is for a
// machine that is busy with other tests; the cluster usually needs a second.
const patience = 60 * time.Second

// start runs a cluster for one test.
func start(t *testing.T) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: t.TempDir(), Binary: binary(t),
		Progress: func(step string) { t.Log(step) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// binary finds the control plane. Without it nothing here means anything, so its
// absence fails the test rather than skipping it.
func binary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("KARVE_CONTROLPLANE"); path != "" {
		return path
	}
	path, err := filepath.Abs("../../bin/karve-controlplane")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it with `make controlplane`, or name it in KARVE_CONTROLPLANE", err)
	}
	return path
}

// eventually asks until the question has no error.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v after %s", what, err, patience)
		case <-tick.C:
		}
	}
}

func TestPodRunsOnSimulatedNode(t *testing.T) {
	_, client := start(t)
	ctx := t.Context()
	registered := node("worker")
	if _, err := client.CoreV1().Nodes().Create(ctx, registered, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	eventually(t, "pod running", func() error {
		got, err := client.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.Status.Phase != corev1.PodRunning || got.Status.PodIP == "" || got.Status.HostIP != "10.224.0.7" {
			return fmt.Errorf("status is %+v", got.Status)
		}
		return nil
	})

	got, err := client.CoreV1().Nodes().Get(ctx, "worker", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(registered.Status.Allocatable, got.Status.Allocatable, cmp.Comparer(equalQuantity)); diff != "" {
		t.Errorf("allocatable changed (-registered +now):\n%s", diff)
	}
	if diff := cmp.Diff(registered.Status.Capacity, got.Status.Capacity, cmp.Comparer(equalQuantity)); diff != "" {
		t.Errorf("capacity changed (-registered +now):\n%s", diff)
	}
	if diff := cmp.Diff(registered.Status.Addresses, got.Status.Addresses); diff != "" {
		t.Errorf("addresses changed (-registered +now):\n%s", diff)
	}
	if diff := cmp.Diff(registered.Status.NodeInfo, got.Status.NodeInfo); diff != "" {
		t.Errorf("node info changed (-registered +now):\n%s", diff)
	}
	if diff := cmp.Diff(registered.Labels, got.Labels); diff != "" {
		t.Errorf("labels changed (-registered +now):\n%s", diff)
	}
	eventually(t, "lease", func() error {
		_, err := client.CoordinationV1().Leases("kube-node-lease").Get(ctx, "worker", metav1.GetOptions{})
		return err
	})

	// Thirty seconds of grace are a limit, not a duration.
	if err := client.CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod gone", func() error {
		_, err := client.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("still there"), err)
	})
}

func TestNodeWithoutAnnotationIsLeftAlone(t *testing.T) {
	_, client := start(t)
	ctx := t.Context()
	for _, name := range []string{"simulated", "unplugged"} {
		if _, err := client.CoreV1().Nodes().Create(ctx, node(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, name+" ready", func() error { return readiness(ctx, client, name, corev1.ConditionTrue) })
	}
	unplug := []byte(`{"metadata":{"annotations":{"kwok.x-k8s.io/node":null}}}`)
	if _, err := client.CoreV1().Nodes().Patch(ctx, "unplugged", types.MergePatchType, unplug, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	last := renewed(t, client, "unplugged")

	// The living node renews three times meanwhile: were the other's lease still kept,
	// it would have been renewed too.
	for range 3 {
		before := renewed(t, client, "simulated")
		eventually(t, "lease of the simulated node renewed", func() error {
			if !renewed(t, client, "simulated").After(before) {
				return errors.New("not renewed")
			}
			return nil
		})
	}
	if now := renewed(t, client, "unplugged"); now.After(last.Add(2 * time.Second)) {
		t.Errorf("the unplugged node's lease was renewed at %s, long after %s", now, last)
	}
	notReady := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Gone"}]}}`)
	if _, err := client.CoreV1().Nodes().Patch(ctx, "unplugged", types.StrategicMergePatchType, notReady, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	// A pod on the simulated node shows that events are being handled.
	if _, err := client.CoreV1().Pods("default").Create(ctx, pod("probe"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "probe running", func() error {
		got, err := client.CoreV1().Pods("default").Get(ctx, "probe", metav1.GetOptions{})
		if err == nil && got.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("phase is %s", got.Status.Phase)
		}
		return err
	})
	if err := readiness(ctx, client, "unplugged", corev1.ConditionFalse); err != nil {
		t.Errorf("the unplugged node: %v", err)
	}
}

func TestSecondClusterInDirIsRefused(t *testing.T) {
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Binary: binary(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	_, err = cluster.Start(t.Context(), cluster.Options{Dir: dir, Binary: binary(t)})
	if err == nil || !strings.Contains(err.Error(), "in use by another cluster") {
		t.Errorf("second start in %s: %v, want a refusal", dir, err)
	}
}

func TestMissingBinarySaysHowToBuildIt(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{Dir: t.TempDir(), Binary: "/nowhere/karve-controlplane"})
	if err == nil || !strings.Contains(err.Error(), "make controlplane") {
		t.Errorf("got %v, want a hint to make controlplane", err)
	}
}

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
	eventually(t, "lease of "+name, func() error {
		lease, err := client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			at = lease.Spec.RenewTime.Time
		}
		return err
	})
	return at
}

func equalQuantity(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }

// node is as a node agent registers it: everything but conditions, and a resource that
// only a device plugin could have added.
func node(name string) *corev1.Node {
	size := corev1.ResourceList{
		corev1.ResourceCPU:                    resource.MustParse("4"),
		corev1.ResourceMemory:                 resource.MustParse("16Gi"),
		corev1.ResourcePods:                   resource.MustParse("30"),
		corev1.ResourceEphemeralStorage:       resource.MustParse("128Gi"),
		corev1.ResourceName("nvidia.com/gpu"): resource.MustParse("2"),
	}
	allocatable := size.DeepCopy()
	allocatable[corev1.ResourceCPU] = resource.MustParse("3860m")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{"topology.kubernetes.io/zone": "westeurope-1"},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: allocatable,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.224.0.7"},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", Architecture: "amd64", OperatingSystem: "linux"},
		},
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "example.com/app:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:                    resource.MustParse("1"),
				corev1.ResourceName("nvidia.com/gpu"): resource.MustParse("1"),
			}, Limits: corev1.ResourceList{
				corev1.ResourceName("nvidia.com/gpu"): resource.MustParse("1"),
			}},
		}}},
	}
}
