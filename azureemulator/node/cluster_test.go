// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/azureemulator/node"
	"github.com/karve-dev/karve/local/cluster"
	"github.com/karve-dev/karve/local/cluster/clustertest"
)

// vms is a cloud that boots guests at once.
type vms struct {
	os    *node.OS
	mu    sync.Mutex
	end   map[string]context.CancelCauseFunc
	known map[string]azureemulator.VM
	state map[string]node.State
	run   sync.WaitGroup
}

func (c *vms) Find(name string) (azureemulator.VM, node.State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.known[name]
	return m, c.state[name], ok
}

func (c *vms) boot(m azureemulator.VM) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[m.Name], c.state[m.Name], c.end[m.Name] = m, node.Running, cancel
	c.run.Go(func() { c.os.Run(ctx, m) })
}

// stop ends a VM for a reason.
func (c *vms) stop(name string, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end[name](cause)
	if errors.Is(cause, azureemulator.ErrDeallocated) {
		c.state[name] = node.Deallocated
		return
	}
	delete(c.known, name)
}

func (c *vms) stopAll() {
	c.mu.Lock()
	for _, end := range c.end {
		end(context.Canceled)
	}
	c.mu.Unlock()
	c.run.Wait()
}

func payload(c *cluster.Cluster, token, flags string) []byte {
	return fmt.Appendf(nil, `#!/bin/bash
PROVISION_OUTPUT="/var/log/azure/cluster-provision-cse-output.log"; echo $(date),$(hostname) > ${PROVISION_OUTPUT};
API_SERVER_NAME=%s KUBE_CA_CRT="%s" TLS_BOOTSTRAP_TOKEN='%s' KUBERNETES_VERSION=1.36.3 \
KUBELET_NODE_LABELS="karpenter.sh/nodepool=default,kubernetes.azure.com/role=agent" \
KUBELET_FLAGS="--cloud-provider=external --max-pods=30 --kube-reserved=cpu=100m --eviction-hard=memory.available<750Mi %s" \
GPU_NODE=true CONFIG_GPU_DRIVER_IF_NEEDED=true \
/usr/bin/nohup /bin/bash -c "/bin/bash /opt/azure/containers/provision_start.sh"
`, strings.TrimSuffix(strings.TrimPrefix(c.PublicEndpoint(), "https://"), ":443"), base64.StdEncoding.EncodeToString(c.CAData()), token, flags)
}

func newVM(name string, customData []byte) azureemulator.VM {
	return azureemulator.VM{
		Name: name, ComputerName: name, SubscriptionID: "s1", ResourceGroup: "MC_demo", Location: "eastus", Zone: "1",
		PrivateIP: "10.224.0.9", Priority: "Regular", CustomData: customData,
		Size: catalog.Size{Name: "Standard_NC24ads_A100_v4", VCPUs: 24, VCPUsAvailable: 24, MemoryGiB: 220, GPUs: 1, MaxDataDisks: 8, Architecture: "x64"},
	}
}

// world is a control plane, a cloud of VMs, and the controller between them.
type world struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  kubernetes.Interface
	cloud   *vms
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, client := clustertest.Start(t, t.TempDir())
	cloud := &vms{
		os:  node.NewOS(node.Options{Routes: c.Routes()}),
		end: map[string]context.CancelCauseFunc{}, known: map[string]azureemulator.VM{}, state: map[string]node.State{},
	}
	t.Cleanup(cloud.stopAll)
	controller, err := node.NewCloudController(node.CloudOptions{Client: client, VMs: cloud, CheckEvery: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &world{t: t, cluster: c, client: client, cloud: cloud}
}

func (w *world) nodeWhere(name, what string, holds func(*corev1.Node) bool) *corev1.Node {
	w.t.Helper()
	var n *corev1.Node
	clustertest.Eventually(w.t, what, func(ctx context.Context) (err error) {
		n, err = w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && !holds(n) {
			err = fmt.Errorf("taints %v, conditions %v", n.Spec.Taints, n.Status.Conditions)
		}
		if err != nil {
			err = fmt.Errorf("%w; console:\n%s", err, w.cloud.os.Console(name))
		}
		return err
	})
	return n
}

func (w *world) gone(name string) {
	w.t.Helper()
	clustertest.Eventually(w.t, "removing "+name, func(ctx context.Context) error {
		_, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the node is still there"), err)
	})
}

func readiness(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func usable(n *corev1.Node) bool {
	return readiness(n) == corev1.ConditionTrue && len(n.Spec.Taints) == 0 && n.Spec.ProviderID != ""
}

// From customData to a Node that runs a pod, and from the VM's end to a
// cluster without it: on a real control plane, with its bootstrap, its
// authorization of nodes, and its scheduler.
func TestLifeOfAVMOnARealControlPlane(t *testing.T) {
	w := newWorld(t)
	good := payload(w.cluster, w.cluster.BootstrapToken(), "")
	w.cloud.boot(newVM("good", good))
	w.cloud.boot(newVM("paused", good))
	w.cloud.boot(newVM("wrong-token", payload(w.cluster, "aaaaaa.aaaaaaaaaaaaaaaa", "")))
	w.cloud.boot(newVM("wrong-flag", payload(w.cluster, w.cluster.BootstrapToken(), "--no-such-flag")))

	n := w.nodeWhere("good", "joining", usable)
	if got := n.Status.Allocatable["nvidia.com/gpu"]; got.Value() != 1 {
		t.Errorf("GPUs: %s", got.String())
	}
	if got := n.Status.Allocatable.Cpu(); got.Cmp(resource.MustParse("23900m")) != 0 || n.Status.Allocatable.Pods().Value() != 30 {
		t.Errorf("allocatable: %v", n.Status.Allocatable)
	}
	if n.Labels["karpenter.sh/nodepool"] != "default" || n.Labels["topology.kubernetes.io/zone"] != "eastus-1" {
		t.Errorf("labels: %v", n.Labels)
	}
	if n.Status.NodeInfo.KubeletVersion != "v1.36.3" || n.Status.Addresses[0].Address != "10.224.0.9" {
		t.Errorf("status: %+v", n.Status)
	}
	w.disks("good", 8)
	w.runPod("good")
	w.preempt("good")

	w.nodeWhere("paused", "joining", usable)
	w.cloud.stop("paused", azureemulator.ErrDeallocated)
	w.nodeWhere("paused", "deallocating", func(n *corev1.Node) bool {
		return readiness(n) == corev1.ConditionUnknown && tainted(n, "node.cloudprovider.kubernetes.io/shutdown")
	})
	w.cloud.boot(newVM("paused", good))
	w.nodeWhere("paused", "starting again", usable)

	w.cloud.stop("good", azureemulator.ErrEvicted)
	w.gone("good")

	for name, reason := range map[string]string{"wrong-token": "Unauthorized", "wrong-flag": "unknown flag: --no-such-flag"} {
		clustertest.Eventually(w.t, "waiting for "+name, func(context.Context) error {
			if got := w.cloud.os.Console(name); !strings.Contains(got, reason) {
				return fmt.Errorf("console %q says nothing of %q", got, reason)
			}
			return nil
		})
		if _, err := w.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s joined: %v", name, err)
		}
	}
}

// disks waits until the node has said how many disks can be attached to it, as the
// node itself: the API server lets it write no other CSINode.
func (w *world) disks(name string, limit int32) {
	w.t.Helper()
	clustertest.Eventually(w.t, "starting the disk driver", func(ctx context.Context) error {
		c, err := w.client.StorageV1().CSINodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && *c.Spec.Drivers[0].Allocatable.Count != limit {
			err = fmt.Errorf("drivers %+v", c.Spec.Drivers)
		}
		return err
	})
	w.nodeWhere(name, "labelling with the disks' zone", func(n *corev1.Node) bool {
		return n.Labels["topology.disk.csi.azure.com/zone"] == "eastus-1"
	})
}

func tainted(n *corev1.Node, key string) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

// runPod has the scheduler put a GPU pod on the node, where it must run.
func (w *world) runPod(nodeName string) {
	w.t.Helper()
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"kubernetes.io/hostname": nodeName},
			Containers:   []corev1.Container{{Name: "c", Image: "train", Resources: corev1.ResourceRequirements{Requests: gpu, Limits: gpu}}},
		},
	}
	if _, err := w.client.CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	clustertest.Eventually(w.t, "running the pod", func(ctx context.Context) error {
		p, err := w.client.CoreV1().Pods("default").Get(ctx, "train", metav1.GetOptions{})
		if err == nil && (p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != nodeName) {
			err = fmt.Errorf("pod is %s on %q: %v", p.Status.Phase, p.Spec.NodeName, p.Status.Conditions)
		}
		return err
	})
}

// preempt sends the notice; the node must stay otherwise healthy.
func (w *world) preempt(name string) {
	w.t.Helper()
	w.cloud.os.Preempt(name, azureemulator.Preemption{EventID: "A1", NotBefore: time.Now().Add(30 * time.Second)})
	w.nodeWhere(name, "preempting", func(n *corev1.Node) bool {
		for _, c := range n.Status.Conditions {
			if c.Type == "PreemptionScheduled" && c.Status == corev1.ConditionTrue && c.Reason == "SpotEvictionIncoming" {
				return usable(n)
			}
		}
		return false
	})
}

// Many VMs that boot together must all join, soon, and without holding on
// to connections.
func TestManyVMsJoinTogether(t *testing.T) {
	const count = 100
	w := newWorld(t)
	good := payload(w.cluster, w.cluster.BootstrapToken(), "")
	start := time.Now()
	for i := range count {
		w.cloud.boot(newVM(fmt.Sprintf("vm-%03d", i), good))
	}
	clustertest.Eventually(w.t, "joining", func(ctx context.Context) error {
		list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if usable(&list.Items[i]) {
				ready++
			}
		}
		if ready < count {
			return fmt.Errorf("%d of %d nodes are ready", ready, count)
		}
		return nil
	})
	t.Logf("%d nodes joined and were ready after %s", count, time.Since(start).Round(time.Millisecond))
	for i := range count {
		w.cloud.stop(fmt.Sprintf("vm-%03d", i), azureemulator.ErrDeleted)
	}
	clustertest.Eventually(w.t, "leaving", func(ctx context.Context) error {
		list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d nodes left", len(list.Items))
		}
		return err
	})
}
