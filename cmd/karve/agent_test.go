// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/agent"
	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/local/cluster/clustertest"
)

// An agent may mark the node that its token is bound to, and nothing else of any node.
//
// Rule INTERRUPTION-4.
func TestAgentMayMarkItsOwnNodeOnly(t *testing.T) {
	c, _ := clustertest.Start(t, t.TempDir())
	admin, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(access.AgentObjects("kube-system"), agent.DaemonSet("kube-system", access.AgentName, "karve:test"), node("mine"), node("other")) {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T: %v", o, err)
		}
	}
	own, unbound := as(t, c.RESTConfig(), "mine"), as(t, c.RESTConfig(), "")
	// Others taint the nodes, too, meanwhile: no kubelet runs for them.
	mark := func(n *corev1.Node) {
		n.Spec.Taints = append(others(n), corev1.Taint{Key: kube.InterruptionTaint, Value: "Preempt", Effect: corev1.TaintEffectNoSchedule})
		n.Annotations[kube.NotBeforeAnnotation] = time.Now().Format(time.RFC3339Nano)
	}
	// A policy takes a moment to come into force; until then roles alone would let this pass.
	clustertest.Eventually(t, "the policy is in force", func(ctx context.Context) error {
		if err := patch(ctx, own, "mine", func(n *corev1.Node) { n.Annotations["probe"] = time.Now().String() }); !refused(err) {
			return errTooEarly
		}
		return nil
	})
	if err := patch(t.Context(), own, "mine", mark); err != nil {
		t.Errorf("the agent cannot mark its own node: %v", err)
	}
	for what, change := range map[string]func(*corev1.Node){
		"add a taint": func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "x", Effect: "NoSchedule"})
		},
		"take a taint off": func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "kept" })
		},
		"evict by its taint": func(n *corev1.Node) {
			n.Spec.Taints = append(others(n), corev1.Taint{Key: kube.InterruptionTaint, Value: "Preempt", Effect: corev1.TaintEffectNoExecute})
		},
		"annotate":             func(n *corev1.Node) { n.Annotations["x"] = "y" },
		"change an annotation": func(n *corev1.Node) { n.Annotations["kept"] = "no" },
		"drop an annotation":   func(n *corev1.Node) { delete(n.Annotations, "kept") },
		"label":                func(n *corev1.Node) { n.Labels["x"] = "y" },
		"cordon":               func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"name a provider":      func(n *corev1.Node) { n.Spec.ProviderID = "azure:///x" },
		"add a finalizer":      func(n *corev1.Node) { n.Finalizers = append(n.Finalizers, "example.com/x") },
	} {
		if err := patch(t.Context(), own, "mine", change); !refused(err) {
			t.Errorf("the agent may %s: %v", what, err)
		}
	}
	if err := patch(t.Context(), own, "other", mark); !refused(err) {
		t.Errorf("the agent may mark another node: %v", err)
	}
	if err := patch(t.Context(), unbound, "mine", mark); !refused(err) {
		t.Errorf("a token without a node may mark one: %v", err)
	}
	if err := own.Delete(t.Context(), node("mine")); !apierrors.IsForbidden(err) {
		t.Errorf("the agent may delete nodes: %v", err)
	}
	if err := patch(t.Context(), own, "mine", func(n *corev1.Node) {
		n.Spec.Taints = others(n)
		delete(n.Annotations, kube.NotBeforeAnnotation)
	}); err != nil {
		t.Errorf("the agent cannot take its mark off: %v", err)
	}
}

// others are the node's taints but the agent's.
func others(n *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == kube.InterruptionTaint })
}

var errTooEarly = context.DeadlineExceeded

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"kept": "yes"}, Labels: map[string]string{"kept": "yes"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "kept", Effect: corev1.TaintEffectNoSchedule}}},
	}
}

// as is the agent whose pod runs on a node; empty for a token that names none.
func as(t *testing.T, cluster *rest.Config, node string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster)
	config.Impersonate = rest.ImpersonationConfig{UserName: access.AgentUser("kube-system"), Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	if node != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func patch(ctx context.Context, c client.Client, name string, change func(*corev1.Node)) error {
	stored := &corev1.Node{}
	for {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, stored); err != nil {
			return err
		}
		n := stored.DeepCopy()
		change(n)
		err := c.Patch(ctx, n, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// refused reports whether the policy said no, not the roles.
func refused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+access.AgentName+"'")
}

func TestAgentManifest(t *testing.T) {
	run := func(args ...string) (string, error) {
		var out strings.Builder
		cmd := rootCommand()
		cmd.SetOut(&out)
		cmd.SetArgs(append([]string{"agent"}, args...))
		err := cmd.Execute()
		return out.String(), err
	}
	text, err := run("manifest", "--image", "example.com/karve:1", "--namespace", "karve")
	if err != nil || strings.Count(text, "\nkind: ") != 8 || !strings.Contains(text, "image: example.com/karve:1") || !strings.Contains(text, "hostNetwork: true") {
		t.Errorf("%v:\n%s", err, text)
	}
	if _, err := run("manifest"); err == nil || !strings.Contains(err.Error(), "--image") {
		t.Errorf("without an image: %v", err)
	}
	if _, err := run("--imds-endpoint", "nowhere"); err == nil || !strings.Contains(err.Error(), "NODE_NAME") || !strings.Contains(err.Error(), "IMDS_ENDPOINT") {
		t.Errorf("without a node: %v", err)
	}
}
