// SPDX-License-Identifier: Apache-2.0

package provision_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// No node is launched for pods that were bound, deleted or promised other capacity while a plan was
// made for them, nor for a NodePool that was deleted. One is launched if any of its pods needs it.
//
// Rule LAUNCH-12.
func TestEventsWhileAPlanIsMade(t *testing.T) {
	bound := func(p *corev1.Pod) *corev1.Pod {
		p = p.DeepCopy()
		p.Spec.NodeName = "other"
		return p
	}
	deleting := func(p *karpv1.NodePool) *karpv1.NodePool {
		p = p.DeepCopy()
		now := metav1.Now()
		p.DeletionTimestamp = &now
		return p
	}
	for _, tc := range []struct {
		name   string
		event  func(e *controllertest.Env, a, b *corev1.Pod, pool *karpv1.NodePool)
		claims int
		waits  int // pods that still need capacity
	}{
		{"nothing", func(*controllertest.Env, *corev1.Pod, *corev1.Pod, *karpv1.NodePool) {}, 1, 0},
		{"the pods were deleted", func(e *controllertest.Env, a, b *corev1.Pod, _ *karpv1.NodePool) {
			e.Mirror.RemovePod(a)
			e.Mirror.RemovePod(b)
		}, 0, 0},
		{"the pods were bound", func(e *controllertest.Env, a, b *corev1.Pod, _ *karpv1.NodePool) {
			e.Mirror.SetPod(bound(a), false)
			e.Mirror.SetPod(bound(b), false)
		}, 0, 0},
		{"the pods were promised another node", func(e *controllertest.Env, a, b *corev1.Pod, _ *karpv1.NodePool) {
			other := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
			e.Mirror.RecordCreatedClaim(other, nil, []cluster.PodRef{kube.Ref(a), kube.Ref(b)})
		}, 0, 0},
		{"one pod was deleted", func(e *controllertest.Env, a, _ *corev1.Pod, _ *karpv1.NodePool) { e.Mirror.RemovePod(a) }, 1, 0},
		{"the NodePool was deleted", func(e *controllertest.Env, _, _ *corev1.Pod, p *karpv1.NodePool) { e.Mirror.RemovePool(p) }, 0, 2},
		{"the NodePool is being deleted", func(e *controllertest.Env, _, _ *corev1.Pod, p *karpv1.NodePool) { e.Mirror.SetPool(deleting(p)) }, 0, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := controllertest.New(t, memory.Options{})
				e.Create(controllertest.Pool("web", "30s"))
				e.Step()
				e.Create(controllertest.Pod("a", "1", "1Gi"))
				e.Create(controllertest.Pod("b", "1", "1Gi"))
				e.Feed()
				pods, pool := e.Pods(), e.NodePools()[0]
				planned := 0
				e.Provisioner.Log = funcr.New(func(_, line string) {
					if strings.Contains(line, "computed new nodeclaim") {
						planned++
						tc.event(e, &pods[0], &pods[1], &pool)
					}
				}, funcr.Options{})
				_ = e.Provisioner.Provision(t.Context()) // a NodePool that was deleted is an error
				synctest.Wait()
				if got := len(e.Claims()); planned != 1 || got != tc.claims {
					t.Errorf("%d plans led to %d NodeClaims, want %d", planned, got, tc.claims)
				}
				if got := e.Mirror.CountWaiting(); got != tc.waits {
					t.Errorf("%d pods need capacity, want %d", got, tc.waits)
				}
				told := slices.DeleteFunc([]string{"a", "b"}, func(pod string) bool { return len(e.EventTexts(pod)) == 0 })
				if tc.claims == 0 && len(told) > 0 {
					t.Errorf("pods %v were told of a node that does not come", told)
				}
			})
		})
	}
}
