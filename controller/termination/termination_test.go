// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/termination"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/provider/memory"
)

// withNode creates one initialized node of a pool that is never consolidated,
// and binds the named pods to it.
func withNode(t *testing.T, change func(*karpv1.NodePool), pods ...*corev1.Pod) *controllertest.Env {
	t.Helper()
	e := controllertest.New(t, memory.Options{Create: time.Second, Delete: time.Second})
	pool := controllertest.Pool("web", "Never")
	if change != nil {
		change(pool)
	}
	e.Create(pool)
	e.Create(controllertest.Pod("first", "1", "1Gi"))
	e.Until(20, "a node", func() bool { e.Join(); return len(e.Nodes()) == 1 && len(e.Nodes()[0].Finalizers) == 1 })
	for _, p := range append(pods, nil) {
		if p != nil {
			p.Status.Conditions = nil
			e.Create(p)
			e.Bind(p.Name, e.Nodes()[0].Name)
		}
	}
	first := e.Pods()[slices.IndexFunc(e.Pods(), func(p corev1.Pod) bool { return p.Name == "first" })]
	e.Delete(&first)
	return e
}

func names(e *controllertest.Env) []string {
	var out []string
	for _, p := range e.Pods() {
		out = append(out, p.Name)
	}
	return out
}

func exists(e *controllertest.Env, claim string) bool {
	return slices.ContainsFunc(e.Claims(), func(c karpv1.NodeClaim) bool { return c.Name == claim })
}

func critical(p *corev1.Pod) *corev1.Pod {
	p.Spec.PriorityClassName = "system-cluster-critical"
	return p
}

func ofDaemonSet(p *corev1.Pod) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d"}}
	return p
}

// A Node whose deletion is dated an hour ahead, because the API server's clock was then, leaves as fast
// as any other once that clock is set right.
//
// Rule CLOCK-1.
func TestNodeLeavesThoughItsDeletionIsYetToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t, nil)
		e.Termination.Clock = &kube.ServerClock{}
		e.Termination.Clock.Observe(time.Now().Add(-time.Hour))
		claim := e.Claims()[0]
		e.Delete(&claim)
		e.Until(40, "the claim is gone", func() bool { return !exists(e, claim.Name) })
	})
}

// Pods leave in four groups, each after the one before; pods that tolerate the taint run to the
// end; then node, instance and claim are removed.
//
// Rule DRAIN-1.
func TestDrainOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		staying := controllertest.Pod("staying", "1", "1Gi")
		staying.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		e := withNode(t, nil,
			controllertest.Pod("plain", "1", "1Gi"), ofDaemonSet(controllertest.Pod("daemon", "1", "1Gi")),
			critical(controllertest.Pod("critical", "1", "1Gi")), critical(ofDaemonSet(controllertest.Pod("critical-daemon", "1", "1Gi"))), staying)
		claim := e.Claims()[0]
		e.Delete(&claim)
		var gone []string
		all := names(e)
		e.Until(40, "the claim is gone", func() bool {
			for _, name := range all {
				if !slices.Contains(names(e), name) && !slices.Contains(gone, name) {
					gone = append(gone, name)
				}
			}
			return !exists(e, claim.Name)
		})
		want := []string{"plain", "daemon", "critical", "critical-daemon", "staying"}
		if !slices.Equal(gone, want) {
			t.Errorf("pods left in the order %v, want %v", gone, want)
		}
		// The drained pods got a replacement node.
		if len(e.Nodes()) != 0 || len(e.Cloud.ProviderIDs()) != 1 {
			t.Errorf("%d nodes and %d instances are left, want only the replacement", len(e.Nodes()), len(e.Cloud.ProviderIDs()))
		}
	})
}

// While it drains the node takes no pods and no traffic.
func TestNodeIsKeptOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		protected := controllertest.Pod("protected", "1", "1Gi")
		protected.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		e := withNode(t, nil, protected)
		node := e.Nodes()[0]
		e.Delete(&node) // deleting the node is as good as deleting its claim
		e.Steps(60)
		if len(e.Pods()) != 1 || len(e.Nodes()) != 1 {
			t.Fatalf("the protected pod was disturbed: pods %v", names(e))
		}
		node = e.Nodes()[0]
		if node.Labels[corev1.LabelNodeExcludeBalancers] != "karpenter" || !slices.ContainsFunc(node.Spec.Taints, func(x corev1.Taint) bool { return x.Key == karpv1.DisruptedTaintKey }) {
			t.Errorf("labels %v, taints %v", node.Labels, node.Spec.Taints)
		}
		if e.Claims()[0].DeletionTimestamp == nil {
			t.Error("the claim of a deleted node stays")
		}
	})
}

// The deadline overrides protection, early enough for the pod's own grace.
//
// Rule DRAIN-2.
func TestDeadlineForces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		protected := controllertest.Pod("protected", "1", "1Gi")
		protected.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		protected.Spec.TerminationGracePeriodSeconds = new(int64(20))
		e := withNode(t, func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Minute}
		}, protected)
		claim := e.Claims()[0]
		start := time.Now()
		e.Delete(&claim)
		e.Until(90, "the pod is gone", func() bool { return len(e.Pods()) == 0 })
		if took := time.Since(start); took < 38*time.Second || took > 45*time.Second {
			t.Errorf("forced after %s, want about 40s: a minute less the pod's own 20s", took)
		}
		e.Until(30, "the claim is gone", func() bool { return !exists(e, claim.Name) })
	})
}

// An eviction that a disruption budget holds back is requested again, with back-off.
//
// Rule DRAIN-1.
func TestBudgetHoldsEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t, nil, controllertest.Pod("guarded", "1", "1Gi"))
		asked, refuse := 0, true
		guarded := interceptor.NewClient(e.API, interceptor.Funcs{
			SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
				if asked++; refuse {
					return apierrors.NewTooManyRequests("the budget allows none", 0)
				}
				return c.SubResource(sub).Create(ctx, o, s, opts...)
			},
		})
		e.Termination.Evictor = termination.NewEvictor(guarded, e.Events, e.Metrics, e.Termination.Log)
		claim := e.Claims()[0]
		e.Delete(&claim)
		e.Steps(60)
		if len(e.Pods()) != 1 {
			t.Fatal("the pod left although its budget said no")
		}
		if asked < 5 || asked > 12 {
			t.Errorf("asked %d times in a minute, want a few", asked)
		}
		refuse = false
		e.Until(30, "the claim is gone", func() bool { return !exists(e, claim.Name) })
	})
}

// A volume that is still attached delays the termination of the instance.
//
// Rule DRAIN-3.
func TestVolumesDetachFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t, nil)
		volume := "pv-1"
		attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attached"},
			Spec: storagev1.VolumeAttachmentSpec{NodeName: e.Nodes()[0].Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
		e.Create(attachment)
		claim := e.Claims()[0]
		e.Delete(&claim)
		e.Steps(20)
		if len(e.Cloud.ProviderIDs()) != 1 {
			t.Fatal("the instance went with a volume attached")
		}
		e.Delete(attachment)
		e.Until(20, "the claim is gone", func() bool { return !exists(e, claim.Name) })
	})
}

// A claim that is deleted while its instance is launched leaves nothing behind.
//
// Rule LAUNCH-6.
func TestClaimDeletedDuringLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := controllertest.New(t, memory.Options{Create: time.Minute})
		e.Create(controllertest.Pool("web", "Never"))
		pod := controllertest.Pod("a", "1", "1Gi")
		e.Create(pod)
		e.Until(10, "an instance is on its way", func() bool { return len(e.Cloud.ProviderIDs()) == 1 })
		e.Delete(pod)
		claim := e.Claims()[0]
		e.Delete(&claim)
		e.Until(30, "nothing is left", func() bool { return len(e.Claims()) == 0 && len(e.Cloud.ProviderIDs()) == 0 })
	})
}
