// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
)

const gpus = corev1.ResourceName("nvidia.com/gpu")

// Where users bring the GPU driver, nodes join without GPUs, and pods get those that the users'
// device plugin tells of later. Here the test is the plugin.
//
// Rule BOOTSTRAP-10.
func TestUsersBringTheGPUDriver(t *testing.T) {
	env := environment(t)
	settle(t, env)
	apply(t, env, class("operator", "{gpu: {mode: None}}"))
	apply(t, env, []byte(strings.Replace(string(pool("operator", "operator", "")),
		"{key: karpenter.azure.com/sku-family, operator: In, values: [D]}", "{key: karpenter.azure.com/sku-gpu-manufacturer, operator: In, values: [nvidia]}", 1)))
	apply(t, env, deployment("train", 1, `{cpu: "1", nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}`, "nodeSelector: {pool: operator}"))

	node := readyNode(t, env)
	if n := node.Status.Capacity[gpus]; !n.IsZero() {
		t.Fatalf("the node has %s GPUs before a user brought a driver: AKS's is installed", n.String())
	}
	advertise(t, env, node)
	waitRunning(t, env, "train", 1)
	claims, err := env.Claims(t.Context())
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d NodeClaims, %v", len(claims), err)
	}
	if err := env.WaitCondition(t.Context(), "karpenter.sh/v1", "NodeClaim", claims[0].Name, "Initialized", "True", waitLimit); err != nil {
		t.Error(err)
	}
}

// readyNode waits for karve's node, of which there is one.
func readyNode(t *testing.T, env *local.Environment) *corev1.Node {
	t.Helper()
	var found *corev1.Node
	err := local.Until(t.Context(), waitLimit, "the node is ready", func(ctx context.Context) (bool, error) {
		nodes, err := ownNodes(ctx, env)
		for i := range nodes {
			for _, c := range nodes[i].Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					found = &nodes[i]
				}
			}
		}
		return found != nil, err
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, whyNot(t, env, "train"))
	}
	return found
}

// advertise says in the node's status that it has the GPUs of its size, as a device plugin has
// the kubelet do.
func advertise(t *testing.T, env *local.Environment, node *corev1.Node) {
	t.Helper()
	count, err := resource.ParseQuantity(node.Labels["karpenter.azure.com/sku-gpu-count"])
	if err != nil {
		t.Fatalf("labels %v: %v", node.Labels, err)
	}
	patch := fmt.Appendf(nil, `{"status": {"capacity": {%[1]q: %[2]q}, "allocatable": {%[1]q: %[2]q}}}`, gpus, count.String())
	if err := env.Client().Status().Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
}
