// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/termination"
)

// webhook denies evictions and deletions of one pod, as an admission webhook does.
type webhook struct {
	of                  string // the pod
	evictions, deletion bool   // which of them it denies
}

func (w *webhook) denial() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, w.of, nil)
	err.ErrStatus.Message = `admission webhook "guard.example.com" denied the request: ask the team first`
	return err
}

// guard puts the webhook between the termination controllers and the API.
func (w *webhook) guard(e *controllertest.Env) {
	guarded := interceptor.NewClient(e.API, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			if o.GetName() == w.of && w.evictions {
				return w.denial()
			}
			return c.SubResource(sub).Create(ctx, o, s, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, pod := o.(*corev1.Pod); pod && o.GetName() == w.of && w.deletion {
				return w.denial()
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	e.Termination.Client = guarded
	e.Termination.Evictor = termination.NewEvictor(guarded, e.Events, e.Metrics, e.Termination.Log)
}

// A pod whose eviction the API server refuses delays its node, and nothing else: the drain does
// not fail, the other pods leave, and events on the pod and on the node give the refusal and the
// next step. The eviction is requested again with back-off until the API server allows it.
//
// Rule DRAIN-6.
func TestRefusedEvictionIsSaidAndHoldsNoOtherPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t, nil, ofDaemonSet(controllertest.Pod("guarded", "2", "1Gi")), ofDaemonSet(controllertest.Pod("plain", "1", "1Gi")))
		w := &webhook{of: "guarded", evictions: true}
		w.guard(e)
		node, claim := e.Nodes()[0], e.Claims()[0]
		e.Delete(&claim)
		e.Steps(3)
		if _, err := e.Termination.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&node)}); err != nil {
			t.Errorf("the drain fails, and is tried more and more rarely: %v", err)
		}
		if !told(e, node.Name, "FailedDraining: ", "default/guarded", "guard.example.com", "ask the team first") {
			t.Errorf("the node says %q", e.EventTexts(node.Name))
		}
		if !told(e, "guarded", "EvictionRefused: ", "ask the team first", "webhook", "karve rbac", node.Name) {
			t.Errorf("the pod says %q", e.EventTexts("guarded"))
		}
		e.Steps(117)
		if slices.Contains(names(e), "plain") || !slices.Contains(names(e), "guarded") {
			t.Errorf("pods left: %v", names(e))
		}
		if n := evictions(t, e, "403"); n < 10 || n > 20 {
			t.Errorf("asked %v times in two minutes, want about once in ten seconds", n)
		}
		if n := len(e.EventTexts("guarded")); n > 3 {
			t.Errorf("%d events of the pod in two minutes", n)
		}
		w.evictions = false
		e.Until(60, "the claim is gone", func() bool { return !exists(e, claim.Name) })
	})
}

// evictions is how many evictions were answered with a code.
func evictions(t *testing.T, e *controllertest.Env, code string) float64 {
	t.Helper()
	families, err := e.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "karpenter_pods_eviction_requests_total" && m.GetLabel()[0].GetValue() == code {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// At the deadline of its terminationGracePeriod a node is removed although the API server refuses
// the deletion of one of its pods; the other pods have had their grace period by then. Without a
// deadline it waits.
//
// Rule DRAIN-7.
func TestRefusedDeletionDoesNotOutliveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		protected := controllertest.Pod("protected", "1", "1Gi")
		protected.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		e := withNode(t, func(p *karpv1.NodePool) {
			p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: 2 * time.Minute}
		}, controllertest.Pod("guarded", "2", "1Gi"), protected)
		w := &webhook{of: "guarded", evictions: true, deletion: true}
		w.guard(e)
		node, claim, start := e.Nodes()[0], e.Claims()[0], time.Now()
		e.Delete(&claim)
		e.Until(100, "the other pod is deleted", func() bool { return !slices.Contains(names(e), "protected") })
		if took := time.Since(start); took < 80*time.Second {
			t.Errorf("the other pod went after %s, long before its grace", took)
		}
		e.Steps(5)
		if !told(e, "guarded", "DeletionRefused: ", "ask the team first", "webhook") || !told(e, node.Name, "FailedDraining: ", "its deletion is refused") {
			t.Errorf("the pod says %q, the node %q", e.EventTexts("guarded"), e.EventTexts(node.Name))
		}
		if n := e.Counter("karve_pod_deletions_refused_total"); n == 0 {
			t.Error("no refused deletion is counted")
		}
		e.Until(60, "the claim and its instance are gone", func() bool { return !exists(e, claim.Name) && !running(e, claim.Status.ProviderID) })
		if took := time.Since(start); took < 2*time.Minute || took > 2*time.Minute+10*time.Second {
			t.Errorf("the node went after %s, want its deadline of two minutes", took)
		}
		if !told(e, node.Name, "TerminationGracePeriodElapsed: ", "default/guarded") {
			t.Errorf("the node says %q", e.EventTexts(node.Name))
		}
		if !slices.Contains(names(e), "guarded") {
			t.Error("the pod went although the webhook denies that")
		}
	})
}

// running reports whether an instance exists.
func running(e *controllertest.Env, id string) bool {
	return slices.ContainsFunc(e.Cloud.ProviderIDs(), func(m string) bool { return strings.EqualFold(m, id) })
}

// The Node of a deleted instance is removed, even if the deletion of its pods is refused.
//
// Rule DRAIN-7.
func TestRefusedDeletionDoesNotKeepNodeOfLostInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withNode(t, nil, ofDaemonSet(controllertest.Pod("guarded", "2", "1Gi")), ofDaemonSet(controllertest.Pod("plain", "1", "1Gi")))
		(&webhook{of: "guarded", evictions: true, deletion: true}).guard(e)
		node, claim := e.Nodes()[0], e.Claims()[0]
		e.Cloud.Reclaim(claim.Status.ProviderID)
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		if err := e.API.Status().Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Delete(&claim)
		e.Until(20, "the claim is gone", func() bool { return !exists(e, claim.Name) })
		if got := names(e); !slices.Equal(got, []string{"guarded"}) || !told(e, "guarded", "DeletionRefused: ", "ask the team first") {
			t.Errorf("pods left: %v; the pod says %q", got, e.EventTexts("guarded"))
		}
	})
}

// While pods keep the Node of an instance that may be gone, the cloud is asked ever more rarely whether it
// is: a thousand such nodes would use up what Azure permits.
//
// Rule DRAIN-13.
func TestInstanceOfUnresponsiveKubeletIsReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stays := controllertest.Pod("stays", "2", "1Gi")
		stays.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		e := withNode(t, nil, stays)
		node, claim := e.Nodes()[0], e.Claims()[0]
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		if err := e.API.Status().Update(t.Context(), &node); err != nil {
			t.Fatal(err)
		}
		e.Delete(&claim)
		before, began := e.Cloud.Calls()["get"], time.Now()
		e.Steps(200)
		reads, most := e.Cloud.Calls()["get"]-before, 4+int(time.Since(began)/(15*time.Second))
		if reads == 0 || reads > most {
			t.Errorf("read %d times in %v, want at most %d", reads, time.Since(began), most)
		}
		e.Cloud.Reclaim(claim.Status.ProviderID)
		e.Until(40, "the claim is gone", func() bool { return !exists(e, claim.Name) })
	})
}
