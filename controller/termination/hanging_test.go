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
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/termination"
)

// told reports whether one of the events about an object contains all of the texts.
func told(e *controllertest.Env, about string, texts ...string) bool {
	return slices.ContainsFunc(e.EventTexts(about), func(event string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(event, text) })
	})
}

// The event about a drain that hangs names each pod with the reason that it is still there: the
// budget, the annotation, its turn.
//
// Rule DRAIN-4.
func TestHangingDrainSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		protected := controllertest.Pod("protected", "1", "1Gi")
		protected.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		e := withNode(t, nil, controllertest.Pod("guarded", "1", "1Gi"), protected, critical(controllertest.Pod("later", "1", "1Gi")))
		guarded := interceptor.NewClient(e.API, interceptor.Funcs{
			SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
				err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
				err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget web needs 1 healthy pods and has 1 currently"}}
				return err
			},
		})
		e.Termination.Evictor = termination.NewEvictor(guarded, e.Events, e.Metrics, e.Termination.Log)
		node, claim := e.Nodes()[0], e.Claims()[0]
		e.Delete(&claim)
		e.Steps(3)
		if !told(e, node.Name, "FailedDraining: Failed to drain node, 3 pods are waiting to be evicted: ",
			"default/guarded (The disruption budget web needs 1 healthy pods and has 1 currently)",
			"default/protected (is marked karpenter.sh/do-not-disrupt)", "default/later (leaves after other pods)") {
			t.Errorf("said %q", e.EventTexts(node.Name))
		}
		e.Steps(600)
		if n := len(e.EventTexts(node.Name)); n > 8 {
			t.Errorf("%d events in ten minutes", n)
		}
	})
}

// A pod whose finalizer is never removed is named, and delays the node by a minute
// beyond the pod's grace period, not for ever.
//
// Rule DRAIN-5.
func TestFinalizerOfPodDoesNotHoldNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := controllertest.Pod("kept", "1", "1Gi")
		kept.Finalizers = []string{"example.com/never"}
		e := withNode(t, nil, kept)
		node, claim := e.Nodes()[0], e.Claims()[0]
		start := time.Now()
		e.Delete(&claim)
		e.Until(100, "the claim is gone", func() bool { return !exists(e, claim.Name) })
		if took := time.Since(start); took < time.Minute || took > 80*time.Second {
			t.Errorf("the node went after %s, want a minute", took)
		}
		if !told(e, node.Name, "default/kept (has ended and is kept by finalizers example.com/never)") {
			t.Errorf("said %q", e.EventTexts(node.Name))
		}
		if len(e.Pods()) != 1 {
			t.Error("the pod went although its finalizer stays")
		}
	})
}

// A volume that is never detached delays its node until the node's deadline, or for ever if the
// node has none; either way an event reports it, and other nodes are drained.
//
// Rule DRAIN-5.
func TestAttachmentThatNeverGoes(t *testing.T) {
	for _, grace := range []time.Duration{0, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			e := withNode(t, func(p *karpv1.NodePool) {
				if grace > 0 {
					p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: grace}
				}
			})
			volume, node, claim := "pv-1", e.Nodes()[0], e.Claims()[0]
			e.Create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attached"},
				Spec: storagev1.VolumeAttachmentSpec{NodeName: node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}})
			other := anotherNode(e)
			e.Delete(&claim)
			e.Delete(&other)
			e.Until(30, "the other claim is gone", func() bool { return !exists(e, other.Name) })
			e.Steps(100)
			if !exists(e, claim.Name) || !told(e, node.Name, "AwaitingVolumeDetachment", "attached") {
				t.Errorf("with a grace of %s: the claim is there: %t, said %q", grace, exists(e, claim.Name), e.EventTexts(node.Name))
			}
			e.Steps(60)
			if exists(e, claim.Name) != (grace == 0) {
				t.Errorf("with a grace of %s the claim is there: %t", grace, exists(e, claim.Name))
			}
		})
	}
}

// anotherNode launches a second node and returns its claim.
func anotherNode(e *controllertest.Env) karpv1.NodeClaim {
	first := e.Claims()[0].Name
	pod := controllertest.Pod("elsewhere", "1", "1Gi")
	pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-1"}
	if e.Nodes()[0].Labels[corev1.LabelTopologyZone] == "zone-1" {
		pod.Spec.NodeSelector[corev1.LabelTopologyZone] = "zone-2"
	}
	e.Create(pod)
	e.Until(20, "a second node", func() bool { e.Join(); return len(e.Nodes()) == 2 && len(e.Nodes()[1].Finalizers) == 1 })
	e.Delete(controllertest.Get(e, &corev1.Pod{}, "elsewhere"))
	claims := e.Claims()
	return claims[slices.IndexFunc(claims, func(c karpv1.NodeClaim) bool { return c.Name != first })]
}
