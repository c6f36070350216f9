// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/karve-dev/karve/azureemulator"
)

// memoryCloud is the cloud as a map from computer name to state.
type memoryCloud struct {
	mu  sync.Mutex
	vms map[string]State
}

func (c *memoryCloud) Find(name string) (azureemulator.VM, State, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	state, ok := c.vms[name]
	m := testVM(nil)
	m.Name, m.ComputerName = name, name
	return m, state, ok
}

func (c *memoryCloud) set(name string, state State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vms[name] = state
}

func (c *memoryCloud) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.vms, name)
}

// freshNode is a Node whose kubelet has just registered it.
func freshNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Labels: map[string]string{"a": "b"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute},
			{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{Conditions: starting(time.Now())},
	}
}

// azureNode is an initialized Node with the given readiness.
func azureNode(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"},
		Spec:       corev1.NodeSpec{ProviderID: "azure:///subscriptions/s1/resourceGroups/mc_demo/providers/Microsoft.Compute/virtualMachines/" + name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, ready, "Test", "", time.Now()),
		}},
	}
}

// runCloud runs a controller in a bubble of virtual time until the test ends.
func runCloud(t *testing.T, cloud VMs, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(objects...)
	c, err := NewCloudController(CloudOptions{Client: client, VMs: cloud})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client
}

// after lets virtual time pass and everything settle.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func get(t *testing.T, client *fake.Clientset, name string) *corev1.Node {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func setReady(t *testing.T, client *fake.Clientset, name string, ready corev1.ConditionStatus) {
	t.Helper()
	n := get(t, client, name)
	n.Status.Conditions = azureNode(name, ready).Status.Conditions
	if _, err := client.CoreV1().Nodes().UpdateStatus(context.Background(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestCloudInitializes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := runCloud(t, &memoryCloud{vms: map[string]State{"vm1": Running}}, freshNode("vm1"))
		after(time.Second)
		n := get(t, client, "vm1")
		if diff := cmp.Diff(map[string]string{
			"a": "b", "node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4", "beta.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4",
			"topology.kubernetes.io/region": "eastus", "failure-domain.beta.kubernetes.io/region": "eastus",
			"topology.kubernetes.io/zone": "eastus-2", "failure-domain.beta.kubernetes.io/zone": "eastus-2",
		}, n.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if want := "azure:///subscriptions/s1/resourceGroups/mc_demo/providers/Microsoft.Compute/virtualMachines/vm1"; n.Spec.ProviderID != want {
			t.Errorf("provider id %q, want %q", n.Spec.ProviderID, want)
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "karpenter.sh/unregistered" {
			t.Errorf("taints %v", n.Spec.Taints)
		}
		if diff := cmp.Diff([]corev1.NodeAddress{{Type: "InternalIP", Address: "10.224.0.7"}, {Type: "Hostname", Address: "vm1"}}, n.Status.Addresses); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})
}

func TestCloudZoneOfRegionalVM(t *testing.T) {
	m := testVM(nil)
	m.Zone = ""
	if got := cloudLabels(m)[corev1.LabelTopologyZone]; got != "0" {
		t.Errorf("zone %q, want 0", got)
	}
}

func TestCloudKeepsTheKubeletsProviderID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := freshNode("vm1")
		n.Spec.ProviderID = "azure:///given"
		client := runCloud(t, &memoryCloud{vms: map[string]State{"vm1": Running}}, n)
		after(time.Second)
		if got := get(t, client, "vm1"); got.Spec.ProviderID != "azure:///given" || hasTaint(got, taintUninitialized) {
			t.Errorf("provider id %q, taints %v", got.Spec.ProviderID, got.Spec.Taints)
		}
	})
}

// A Node may register before the cloud lists its VM.
func TestCloudWaitsForTheVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &memoryCloud{vms: map[string]State{}}
		client := runCloud(t, cloud, freshNode("vm1"))
		after(time.Minute)
		if n := get(t, client, "vm1"); n == nil || !hasTaint(n, taintUninitialized) {
			t.Fatalf("node %+v", n)
		}
		cloud.set("vm1", Running)
		after(6 * time.Second)
		if n := get(t, client, "vm1"); hasTaint(n, taintUninitialized) {
			t.Error("not initialized once the VM is known")
		}
	})
}

func TestCloudRemovesNodesWithoutVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &memoryCloud{vms: map[string]State{"lost": Running, "kept": Running, "moody": Running, "early": Running}}
		foreign := azureNode("foreign", corev1.ConditionUnknown)
		foreign.Spec.ProviderID = "kind://x"
		early := freshNode("early") // dies before anybody initialized it
		early.Status.Conditions = silent(time.Now())
		client := runCloud(t, cloud, azureNode("lost", corev1.ConditionTrue), azureNode("kept", corev1.ConditionTrue),
			azureNode("moody", corev1.ConditionFalse), foreign, early)
		cloud.drop("early")
		cloud.drop("lost")
		after(time.Minute)
		if get(t, client, "lost") == nil {
			t.Fatal("a ready node was removed")
		}
		setReady(t, client, "lost", corev1.ConditionUnknown)
		after(time.Second)
		if get(t, client, "lost") == nil {
			t.Fatal("the node went at once, before the controller's next look")
		}
		after(5 * time.Second)
		left := map[string]bool{}
		for _, name := range []string{"lost", "kept", "moody", "foreign", "early"} {
			left[name] = get(t, client, name) != nil
		}
		if diff := cmp.Diff(map[string]bool{"lost": false, "kept": true, "moody": true, "foreign": true, "early": false}, left); diff != "" {
			t.Errorf("nodes left (-want +got):\n%s", diff)
		}
	})
}

// A VM may go long after its Node stopped being ready.
func TestCloudKeepsLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &memoryCloud{vms: map[string]State{"vm1": Running}}
		client := runCloud(t, cloud, azureNode("vm1", corev1.ConditionUnknown))
		after(10 * time.Minute)
		if get(t, client, "vm1") == nil {
			t.Fatal("removed while its VM exists")
		}
		cloud.drop("vm1")
		after(6 * time.Second)
		if get(t, client, "vm1") != nil {
			t.Error("not removed after its VM went")
		}
	})
}

func TestCloudMarksDeallocatedVMs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &memoryCloud{vms: map[string]State{"vm1": Deallocated}}
		client := runCloud(t, cloud, azureNode("vm1", corev1.ConditionUnknown))
		after(6 * time.Second)
		n := get(t, client, "vm1")
		if n == nil || !hasTaint(n, "node.cloudprovider.kubernetes.io/shutdown") {
			t.Fatalf("node %+v", n)
		}
		after(time.Minute)
		if n := get(t, client, "vm1"); len(n.Spec.Taints) != 1 {
			t.Errorf("taints %v", n.Spec.Taints)
		}
		cloud.set("vm1", Running)
		setReady(t, client, "vm1", corev1.ConditionTrue)
		after(6 * time.Second)
		if n := get(t, client, "vm1"); len(n.Spec.Taints) != 0 {
			t.Errorf("taints after the start: %v", n.Spec.Taints)
		}
	})
}

// Somebody else's write in between must be neither lost nor fatal.
func TestCloudRetriesConflictsAndFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(freshNode("vm1"))
		failures := 3
		nodes := schema.GroupResource{Resource: "nodes"}
		client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if failures--; failures == 2 {
				return true, nil, apierrors.NewConflict(nodes, "vm1", fmt.Errorf("stale"))
			}
			return failures >= 0, nil, apierrors.NewInternalError(fmt.Errorf("not now"))
		})
		c, err := NewCloudController(CloudOptions{Client: client, VMs: &memoryCloud{vms: map[string]State{"vm1": Running}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		after(10 * time.Second)
		if n := get(t, client, "vm1"); hasTaint(n, taintUninitialized) {
			t.Errorf("taints %v", n.Spec.Taints)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Taints are one value to the API: writes must be tied to what was read.
func TestCloudWritesArePinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := runCloud(t, &memoryCloud{vms: map[string]State{"vm1": Running}}, freshNode("vm1"))
		after(time.Second)
		for _, action := range client.Actions() {
			if patch, ok := action.(clienttesting.PatchAction); ok && !strings.Contains(string(patch.GetPatch()), `"resourceVersion"`) {
				t.Errorf("patch without a version: %s", patch.GetPatch())
			}
		}
	})
}

// Hundreds of nodes at once, and a quiet cluster afterwards.
func TestCloudAtScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 300
		cloud := &memoryCloud{vms: map[string]State{}}
		var objects []runtime.Object
		for i := range count {
			name := fmt.Sprintf("vm%d", i)
			cloud.vms[name] = Running
			objects = append(objects, freshNode(name))
		}
		client := runCloud(t, cloud, objects...)
		after(time.Second)
		for name := range maps.Clone(cloud.vms) {
			setReady(t, client, name, corev1.ConditionTrue)
		}
		after(10 * time.Second)
		client.ClearActions()
		after(time.Hour)
		if extra := len(client.Actions()); extra != 0 {
			t.Errorf("%d requests in a quiet hour", extra)
		}
		list, err := client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			if hasTaint(&n, taintUninitialized) {
				t.Fatalf("%s was not initialized", n.Name)
			}
		}
	})
}

func TestCloudControllerNeedsItsParts(t *testing.T) {
	if _, err := NewCloudController(CloudOptions{}); err == nil {
		t.Error("a controller without client and cloud was made")
	}
}
