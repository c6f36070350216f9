// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// A startup taint that was removed before the node registers is not added again to nodes whose
// kubelet registers with it; other nodes get it from karve.
func TestStartupTaintsAreAddedOnce(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"born without":                   nil,
		"born with them, lifted":         {karpv1.NodeDoNotSyncTaintsLabelKey: "true"},
		"taken over before, then lifted": {karpv1.NodeRegisteredLabelKey: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				pool := controllertest.Pool("web", "30s")
				pool.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "cni", Effect: corev1.TaintEffectNoSchedule}}
				e.Create(pool)
				e.Create(controllertest.Pod("a", "1", "1Gi"))
				node := join(e)
				for key, value := range labels {
					node.Labels[key] = value
				}
				update(e, node)
				e.Until(10, "a registered node", func() bool { return registered(e) })
				tainted := slices.ContainsFunc(e.Nodes()[0].Spec.Taints, func(t corev1.Taint) bool { return t.Key == "cni" })
				if want := labels == nil; tainted != want {
					t.Errorf("tainted: %v, want %v", tainted, want)
				}
			})
		})
	}
}

// A Node that was deleted by force and recreated by its kubelet is registered again.
//
// Rule LAUNCH-13.
func TestNodeMadeAnewIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		join(e)
		e.Until(10, "a registered node", func() bool { return registered(e) })
		node := e.Nodes()[0]
		node.Finalizers = nil
		update(e, &node)
		e.Delete(&node)
		e.Step()
		e.Join()
		e.Until(10, "a registered node again", func() bool { return len(e.Nodes()) == 1 && registered(e) })
		if len(e.Claims()) != 1 {
			t.Errorf("%d claims", len(e.Claims()))
		}
	})
}

// A Node that its kubelet created again is initialized again once it is ready, and not before:
// other programs wait for the label.
//
// Rule LAUNCH-13.
func TestNodeMadeAnewIsInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{})
		e.Create(controllertest.Pool("web", "Never"))
		e.Create(controllertest.Pod("a", "1", "1Gi"))
		join(e)
		e.Until(10, "an initialized node", func() bool { return initialized(e) })
		node := e.Nodes()[0]
		again := node.DeepCopy()
		node.Finalizers = nil
		update(e, &node)
		e.Delete(&node)
		again.ObjectMeta = metav1.ObjectMeta{Name: node.Name, Labels: map[string]string{corev1.LabelHostname: node.Name}}
		again.Spec.Taints = []corev1.Taint{karpv1.UnregisteredNoExecuteTaint}
		again.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		e.Create(again)
		e.Until(10, "a registered node again", func() bool { return registered(e) })
		e.Steps(5)
		if initialized(e) {
			t.Error("a node that is not ready is initialized")
		}
		node = e.Nodes()[0]
		node.Status.Conditions[0].Status = corev1.ConditionTrue
		if err := e.API.Status().Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Until(10, "an initialized node again", func() bool { return initialized(e) })
	})
}

func initialized(e *controllertest.Env) bool {
	return e.Nodes()[0].Labels[karpv1.NodeInitializedLabelKey] == "true"
}

// join waits for the first instance and registers its Node.
func join(e *controllertest.Env) *corev1.Node {
	e.T.Helper()
	e.Until(30, "an instance that joins", func() bool { e.Join(); return len(e.Nodes()) == 1 })
	return &e.Nodes()[0]
}

func registered(e *controllertest.Env) bool {
	n := e.Nodes()[0]
	return n.Labels[karpv1.NodeRegisteredLabelKey] == "true" &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey })
}

func update(e *controllertest.Env, n *corev1.Node) {
	e.T.Helper()
	if err := e.API.Update(context.Background(), n); err != nil {
		e.T.Fatal(err)
	}
}
