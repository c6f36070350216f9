// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// A Node that another machine's kubelet creates with the provider ID of a VM does not register as the
// VM's node, does not keep the VM's own Node from registering, and is said once.
//
// Rule LAUNCH-16.
func TestNodeOfAnotherNameDoesNotRegister(t *testing.T) {
	for _, name := range []string{"a-rogue", "z-rogue"} { // listed first, and last
		synctest.Test(t, func(t *testing.T) {
			e := controllertest.New(t, memory.Options{})
			e.Create(controllertest.Pool("web", "Never"))
			e.Create(controllertest.Pod("a", "1", "1Gi"))
			e.Until(30, "an instance", func() bool { return len(instances(e)) == 1 && e.Claims()[0].Status.ProviderID != "" })
			vm := instances(e)[0]
			e.Create(rogue(name, vm.ProviderID))
			e.Steps(20)
			if condition(e, karpv1.ConditionTypeRegistered).IsTrue() {
				t.Fatalf("%s: registered as %s", name, e.Claims()[0].Status.NodeName)
			}
			if r := condition(e, karpv1.ConditionTypeRegistered); r.Reason != "NodeNameMismatch" || !strings.Contains(r.Message, name) {
				t.Errorf("%s: the condition says %s: %s", name, r.Reason, r.Message)
			}
			e.Create(controllertest.NodeFor(vm))
			e.Until(10, "the VM's own Node registered", func() bool { return condition(e, karpv1.ConditionTypeInitialized).IsTrue() })
			e.Steps(300)
			if got := e.Claims()[0].Status.NodeName; got != vm.NodeName {
				t.Errorf("%s: the NodeClaim's node is %s, want %s", name, got, vm.NodeName)
			}
			if stranger := controllertest.Get(e, &corev1.Node{}, name); len(stranger.OwnerReferences)+len(stranger.Finalizers) > 0 ||
				stranger.Labels[karpv1.NodeRegisteredLabelKey] != "" {
				t.Errorf("%s: the stranger was adopted: %v", name, stranger.ObjectMeta)
			}
			if n := said(e, name, "NodeRefused"); n != 1 {
				t.Errorf("%s: said %d times, want once: %q", name, n, e.EventTexts(name))
			}
			if n := e.Counter("karve_nodes_refused_total"); n != 1 {
				t.Errorf("%s: counted %g times, want once", name, n)
			}
		})
	}
}

// A Node that was there before its NodeClaim is not the Node of the NodeClaim's VM, whatever its name
// and provider ID.
//
// Rule LAUNCH-16.
func TestNodeMadeBeforeItsClaimDoesNotRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		e.Until(30, "an instance", func() bool { return len(instances(e)) == 1 && e.Claims()[0].Status.ProviderID != "" })
		early := controllertest.NodeFor(instances(e)[0])
		early.CreationTimestamp = metav1.NewTime(e.Claims()[0].CreationTimestamp.Add(-time.Second))
		e.Create(early)
		e.Steps(20)
		if r := condition(e, karpv1.ConditionTypeRegistered); r.IsTrue() || r.Reason != "NodeOlderThanClaim" {
			t.Errorf("the condition says %s %s: %s", r.Status, r.Reason, r.Message)
		}
		if n := said(e, early.Name, "NodeRefused"); n != 1 {
			t.Errorf("said %d times, want once: %q", n, e.EventTexts(early.Name))
		}
	})
}

// A Node that leaves out the taints which its VM was told to register with gets them, also where its
// labels say that karve does not have to add any.
//
// Rule LAUNCH-16.
func TestTaintsThatTheKubeletLeavesOutAreAdded(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"nothing said":            nil,
		"taints are not synced":   {karpv1.NodeDoNotSyncTaintsLabelKey: "true"},
		"says that it registered": {karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				pool := controllertest.Pool("web", "Never")
				dedicated := corev1.Taint{Key: "dedicated", Value: "team", Effect: corev1.TaintEffectNoSchedule}
				pool.Spec.Template.Spec.Taints = []corev1.Taint{dedicated}
				e.Create(pool)
				pod := controllertest.Pod("a", "1", "1Gi")
				pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				e.Create(pod)
				e.Until(30, "an instance", func() bool { return len(instances(e)) == 1 && e.Claims()[0].Status.ProviderID != "" })
				node := controllertest.NodeFor(instances(e)[0])
				node.Spec.Taints = nil
				for key, value := range labels {
					node.Labels[key] = value
				}
				e.Create(node)
				e.Until(10, "an initialized node", func() bool { return condition(e, karpv1.ConditionTypeInitialized).IsTrue() })
				found := false
				for _, taint := range e.Nodes()[0].Spec.Taints {
					found = found || taint == dedicated
				}
				if !found {
					t.Errorf("the node has taints %v", e.Nodes()[0].Spec.Taints)
				}
			})
		})
	}
}

// What a Node says of its instance type, zone, capacity type, NodePool and size is said once where it
// contradicts the NodeClaim.
//
// Rule LAUNCH-17.
func TestContradictionsAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		join(e)
		e.Until(10, "an initialized node", func() bool { return initialized(e) })
		if texts := strings.Join(e.EventTexts(e.Nodes()[0].Name), "\n"); strings.Contains(texts, "NodeContradictsClaim") {
			t.Fatalf("an honest node contradicts: %s", texts)
		}
		node := e.Nodes()[0]
		node.Labels[corev1.LabelTopologyZone] = "elsewhere"
		node.Labels[karpv1.NodePoolLabelKey] = "another"
		update(e, &node)
		node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1000")
		if err := e.API.Status().Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Steps(300)
		texts := strings.Join(e.EventTexts(node.Name), "\n")
		for _, want := range []string{corev1.LabelTopologyZone, karpv1.NodePoolLabelKey, "cpu"} {
			if n := strings.Count(texts, want); n != 1 {
				t.Errorf("%s said %d times, want once:\n%s", want, n, texts)
			}
		}
		if n := e.Counter("karve_nodes_refused_total"); n != 1 {
			t.Errorf("counted %g times, want once", n)
		}
	})
}

// rogue is the Node of a machine that has come up under its own name, and that says to be another's VM.
func rogue(name, providerID string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Spec.ProviderID = providerID
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func instances(e *controllertest.Env) []provider.Instance {
	e.T.Helper()
	all, err := memory.New(e.Cloud).List(e.T.Context())
	if err != nil {
		e.T.Fatal(err)
	}
	return all
}

func condition(e *controllertest.Env, of string) *status.Condition {
	return e.Claims()[0].StatusConditions().Get(of)
}

// said counts the events about an object that have the reason.
func said(e *controllertest.Env, name, reason string) (n int) {
	for _, text := range e.EventTexts(name) {
		if strings.HasPrefix(text, reason+":") {
			n++
		}
	}
	return n
}
