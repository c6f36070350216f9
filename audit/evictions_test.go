// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// S7: pods leave as their PodDisruptionBudgets allow.
func TestEvictions(t *testing.T) {
	a1 := func(h *history) *corev1.Pod {
		c := initialized(claimOf("a1", "a", ""), "cpu=4")
		p := podOn("p1", "a1")
		h.put(c, nodeOf(c), p)
		return p
	}
	run(t, "S7", map[string]func(h *history){
		"the budget allows one": func(h *history) {
			p := a1(h)
			h.put(pdbOf("b", 1))
			h.wait(time.Second)
			h.evict(p)
		},
		"it allows none [S7]": func(h *history) {
			p := a1(h)
			h.put(pdbOf("b", 0))
			h.wait(time.Second)
			h.evict(p)
		},
		"it counted this one already": func(h *history) {
			p, b := a1(h), pdbOf("b", 1)
			h.put(b)
			h.wait(time.Second)
			b.Status.DisruptionsAllowed = 0
			b.Status.DisruptedPods = map[string]metav1.Time{"p1": metav1.NewTime(h.now)}
			h.put(b)
			h.wait(time.Second)
			h.evict(p)
		},
		"the second of two [S7]": func(h *history) {
			p, b := a1(h), pdbOf("b", 1)
			other := podOn("p2", "a1")
			h.put(b, other)
			h.wait(time.Second)
			h.evict(p)
			b.Status.DisruptionsAllowed = 0
			h.put(b)
			h.wait(time.Second)
			h.evict(other)
		},
		"its selector is missing": func(h *history) {
			p, b := a1(h), pdbOf("b", 0)
			b.Spec.Selector = nil
			h.put(b)
			h.wait(time.Second)
			h.evict(p)
		},
		"it is about other pods": func(h *history) {
			p, b := a1(h), pdbOf("b", 0)
			b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
			h.put(b)
			h.wait(time.Second)
			h.evict(p)
		},
		"the pod was not ready, and enough others are": func(h *history) {
			p, b := a1(h), pdbOf("b", 0)
			p.Status.Conditions = nil
			h.put(p, b)
			h.wait(time.Second)
			h.evict(p)
		},
		"the pod was not ready, and too few others are [S7]": func(h *history) {
			p, b := a1(h), pdbOf("b", 0)
			b.Status.CurrentHealthy, b.Status.DesiredHealthy = 0, 1
			p.Status.Conditions = nil
			h.put(p, b)
			h.wait(time.Second)
			h.evict(p)
		},
		"unless the budget leaves such pods out": func(h *history) {
			p, b, always := a1(h), pdbOf("b", 0), policyv1.AlwaysAllow
			b.Status.CurrentHealthy, b.Status.DesiredHealthy = 0, 1
			b.Spec.UnhealthyPodEvictionPolicy = &always
			p.Status.Conditions = nil
			h.put(p, b)
			h.wait(time.Second)
			h.evict(p)
		},
		"a user deletes the pod": func(h *history) {
			p := a1(h)
			h.put(pdbOf("b", 0))
			h.wait(time.Second)
			h.terminate(p)
		},
		"of a node that karve did not launch": func(h *history) {
			c := claimOf("a1", "a", "")
			n, p := nodeOf(c), podOn("p1", "a1")
			n.Labels = nil
			h.put(n, p, pdbOf("b", 0))
			h.wait(time.Second)
			h.evict(p)
		},
	})
	runWith(t, lagging, "S7", map[string]func(h *history){
		"the budget is seen after the eviction": func(h *history) {
			p, b := a1(h), pdbOf("b", 0)
			h.put(b)
			h.wait(time.Minute)
			h.evict(p)
			h.wait(5 * time.Second)
			b.Status.DisruptionsAllowed = 1
			h.put(b)
		},
		"the budget is seen after the eviction, and allows none [S7]": func(h *history) {
			p, b := a1(h), pdbOf("b", 0)
			h.put(b)
			h.wait(time.Minute)
			h.evict(p)
			h.wait(5 * time.Second)
			b.Status.CurrentHealthy = 0
			h.put(b)
		},
	})
}

// S7: karve deletes no pod that has time left.
func TestForcedDeletions(t *testing.T) {
	node := func(h *history, deadline time.Duration) *corev1.Pod {
		c := initialized(claimOf("a1", "a", ""), "cpu=4")
		if deadline > 0 {
			c.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = h.now.Add(deadline).Format(time.RFC3339)
		}
		p, grace := podOn("p1", "a1"), int64(60)
		p.Spec.TerminationGracePeriodSeconds = &grace
		h.put(c, nodeOf(c), p)
		return p
	}
	run(t, "S7", map[string]func(h *history){
		"at the deadline": func(h *history) {
			p := node(h, 10*time.Minute)
			h.wait(9 * time.Minute)
			h.terminate(p)
			h.event(p, eventForced)
		},
		"long before it [S7]": func(h *history) {
			p := node(h, 10*time.Minute)
			h.wait(8 * time.Minute)
			h.terminate(p)
			h.event(p, eventForced)
		},
		"without a deadline [S7]": func(h *history) {
			p := node(h, 0)
			h.terminate(p)
			h.event(p, eventForced)
		},
		"as a request, before the deadline [S7]": func(h *history) {
			node(h, 10*time.Minute)
			h.a.Request(h.now, Request{Method: http.MethodDelete, Resource: "/api/v1/namespaces/web/pods/p1", Status: 200})
		},
		"as a request that was refused": func(h *history) {
			node(h, 10*time.Minute)
			h.a.Request(h.now, Request{Method: http.MethodDelete, Resource: "/api/v1/namespaces/web/pods/p1", Status: 403})
		},
		"an eviction as a request": func(h *history) {
			node(h, 10*time.Minute)
			h.a.Request(h.now, Request{Method: http.MethodPost, Resource: "/api/v1/namespaces/web/pods/p1/eviction", Status: 201})
		},
	})
}
