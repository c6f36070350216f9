// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
)

// Claims count against limits from their reservation on: no two decisions use the same rest of one,
// and a move whose claims do not all fit in reserves none.
//
// Rule LIMIT-3.
func TestReservationsKeepToLimits(t *testing.T) {
	for _, tc := range []struct {
		limit, value string
	}{{"nodes", "3"}, {"cpu", "6"}} { // each claim asks for 2 cpu
		t.Run(tc.limit, func(t *testing.T) {
			m := NewMirror(nil)
			m.SetPool(&karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec: karpv1.NodePoolSpec{Limits: karpv1.Limits(resources(tc.limit, tc.value))}})
			pod := pendingPod("a")
			m.SetPod(pod, false)
			m.SetClaim(claimNamed("web-1"))
			if err := m.ReserveClaim(NewClaim{Claim: claimNamed("web-2"), Pods: []cluster.PodRef{kube.Ref(pod)}}); err != nil {
				t.Fatal(err)
			}
			two := []NewClaim{{Claim: claimNamed("web-3")}, {Claim: claimNamed("web-4")}}
			limit := (*LimitError)(nil)
			if err := m.BeginMove(BeginMoveRequest{Nodes: []string{"web-1"}, NewClaims: two}); !errors.As(err, &limit) || limit.Limit != tc.limit {
				t.Fatalf("a move of two claims for which there is room for one: %v", err)
			}
			if n, _ := m.parts.builder.node("web-1"); n.MarkedForDeletion || m.CountNodes() != 2 {
				t.Fatalf("the move left traces: %d nodes", m.CountNodes())
			}
			if err := m.BeginMove(BeginMoveRequest{Nodes: []string{"web-1"}, NewClaims: two[:1]}); err != nil {
				t.Fatal(err)
			}
			if m.ReserveClaim(two[1]) == nil {
				t.Fatal("a fourth claim was reserved")
			}
			m.ReleaseClaim("web-2")
			if !m.AnyWaits([]cluster.PodRef{kube.Ref(pod)}) {
				t.Error("the pod of a released claim needs no capacity")
			}
			if err := m.ReserveClaim(two[1]); err != nil {
				t.Errorf("after a release: %v", err)
			}
		})
	}
}
