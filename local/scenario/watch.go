// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/local"
)

const namespace = "demo"

// state is the cluster as a user sees it at one moment.
type state struct {
	Pods   []corev1.Pod
	Nodes  []corev1.Node // launched by karve
	Claims []local.Claim
}

// look reads the state. The parts are read one after the other, so they may
// disagree by a moment.
func look(ctx context.Context, env *local.Environment) (state, error) {
	var pods corev1.PodList
	if err := env.Client().List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return state{}, fmt.Errorf("listing pods: %w", err)
	}
	var nodes corev1.NodeList
	if err := env.Client().List(ctx, &nodes, client.HasLabels{labelPool}); err != nil {
		return state{}, fmt.Errorf("listing nodes: %w", err)
	}
	claims, err := env.Claims(ctx)
	return state{Pods: pods.Items, Nodes: nodes.Items, Claims: claims}, err
}

const (
	labelPool         = "karpenter.sh/nodepool"
	labelCapacityType = "karpenter.sh/capacity-type"
)

// running counts pods of an app that run; every app when it is empty.
func (s state) running(app string) int {
	return s.count(app, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
	})
}

// pods counts pods of an app that exist and are not on their way out.
func (s state) pods(app string) int {
	return s.count(app, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil })
}

func (s state) count(app string, is func(*corev1.Pod) bool) int {
	n := 0
	for i := range s.Pods {
		if p := &s.Pods[i]; (app == "" || p.Labels["app"] == app) && is(p) {
			n++
		}
	}
	return n
}

// readyNodes counts nodes that take pods.
func (s state) readyNodes() int {
	n := 0
	for i := range s.Nodes {
		if nodeReady(&s.Nodes[i]) {
			n++
		}
	}
	return n
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// on counts the pods that run on a node.
func (s state) on(node string) int {
	n := 0
	for i := range s.Pods {
		if s.Pods[i].Spec.NodeName == node && s.Pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// launched counts claims whose instance runs.
func (s state) launched() int {
	n := 0
	for _, c := range s.Claims {
		if c.True("Launched") {
			n++
		}
	}
	return n
}

// summary describes the state in one line.
func (s state) summary() string {
	return fmt.Sprintf("%d NodeClaims, %d VMs running, %d nodes ready, %d/%d pods running",
		len(s.Claims), s.launched(), s.readyNodes(), s.running(""), s.pods(""))
}

// vmName is the last part of a provider ID.
func vmName(providerID string) string {
	return providerID[strings.LastIndex(providerID, "/")+1:]
}
