// SPDX-License-Identifier: Apache-2.0

package termination_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
)

const rev = "deployment.kubernetes.io/revision"

// app is a Deployment of one pod. It acts as the Deployment's controller, the scheduler and the
// kubelet.
type app struct {
	e *controllertest.Env
	// neverReady keeps new pods from becoming ready.
	neverReady bool

	rolled int    // ReplicaSets after the first
	seen   string // the stamp of the newest
	gap    bool   // no pod was ready at some moment
}

// surging brings up an app with one ready pod on the Env's only node.
func surging(t *testing.T, pool func(*karpv1.NodePool), change func(*appsv1.Deployment, *corev1.Pod)) *app {
	t.Helper()
	a := &app{e: withNode(t, pool)}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid",
		Annotations: map[string]string{"karve.dev/surge": "true", rev: "1"}}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
	p := a.pod()
	if change != nil {
		change(d, p)
	}
	a.e.Create(d)
	a.replicaSet()
	a.e.Create(p)
	a.e.Bind(p.Name, a.e.Nodes()[0].Name)
	a.setReady(p.Name)
	return a
}

func (a *app) replicaSet() {
	name := fmt.Sprint("web-", a.rolled)
	a.e.Create(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid"),
		OwnerReferences: controlled("Deployment", "web"), Annotations: map[string]string{rev: fmt.Sprint(a.rolled + 1)}}})
}

func (a *app) pod() *corev1.Pod {
	p := controllertest.Pod(fmt.Sprintf("web-%d-pod", a.rolled), "1", "1Gi")
	p.OwnerReferences = controlled("ReplicaSet", fmt.Sprint("web-", a.rolled))
	return p
}

func controlled(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name + "-uid"), Controller: new(true)}}
}

func (a *app) setReady(pod string) {
	p := controllertest.Get(a.e, &corev1.Pod{}, pod)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	a.update(p)
}

// update writes an object and its status.
func (a *app) update(o client.Object) {
	a.e.T.Helper()
	status := o.DeepCopyObject().(client.Object)
	if err := a.e.API.Update(context.Background(), o); err != nil {
		a.e.T.Fatal(err)
	}
	status.SetResourceVersion(o.GetResourceVersion())
	if err := a.e.API.Status().Update(context.Background(), status); err != nil {
		a.e.T.Fatal(err)
	}
}

func (a *app) deployment() *appsv1.Deployment {
	return controllertest.Get(a.e, &appsv1.Deployment{}, "web")
}

// step takes one step of the Env, and then one of the other controllers.
func (a *app) step() {
	a.e.Step()
	a.e.Join()
	if !slices.ContainsFunc(a.e.Pods(), func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && isReady(&p) }) {
		a.gap = true
	}
	a.roll()
	a.settle()
}

// roll creates a new ReplicaSet and its pod when the template has changed.
func (a *app) roll() {
	d := a.deployment()
	stamp := d.Spec.Template.Annotations["karve.dev/surged-for"]
	if stamp == a.seen || d.Spec.Paused {
		return
	}
	a.seen = stamp
	a.rolled++
	a.replicaSet()
	a.e.Create(a.pod())
	d.Annotations[rev] = fmt.Sprint(a.rolled + 1)
	a.update(d)
}

// settle binds the newest pod to a node that takes it and, once that is ready,
// removes the others.
func (a *app) settle() {
	newest := fmt.Sprintf("web-%d-pod", a.rolled)
	i := slices.IndexFunc(a.e.Pods(), func(p corev1.Pod) bool { return p.Name == newest })
	if i < 0 || a.neverReady {
		return
	}
	p := a.e.Pods()[i]
	for _, n := range a.e.Nodes() {
		if p.Spec.NodeName == "" && len(n.Spec.Taints) == 0 && n.DeletionTimestamp == nil {
			a.e.Bind(p.Name, n.Name)
			a.setReady(p.Name)
			return
		}
	}
	if !isReady(&p) {
		return
	}
	for _, other := range a.e.Pods() {
		if other.Name != newest && strings.HasPrefix(other.Name, "web-") {
			a.e.Delete(&other)
		}
	}
}

func (a *app) until(n int, what string, holds func() bool) {
	a.e.T.Helper()
	for range n {
		if holds() {
			return
		}
		a.step()
	}
	a.e.T.Fatalf("after %d steps, still not: %s; events of the Deployment: %q", n, what, a.e.EventTexts("web"))
}

// drain deletes the only claim and waits until it is removed.
func (a *app) drain(steps int) {
	a.e.T.Helper()
	claim := a.e.Claims()[0]
	a.e.Delete(&claim)
	a.until(steps, "the claim is gone", func() bool { return !exists(a.e, claim.Name) })
}

// restart deletes the only claim, waits until a surge has begun for it, and names it.
func (a *app) restart() string {
	a.e.T.Helper()
	claim := a.e.Claims()[0]
	a.e.Delete(&claim)
	a.until(20, "the restart", func() bool { return a.rolled == 1 })
	return claim.Name
}

func (a *app) has(pod string) bool { return slices.Contains(names(a.e), pod) }

func (a *app) published(what string) bool {
	return slices.ContainsFunc(a.e.EventTexts("web"), func(s string) bool { return strings.Contains(s, what) })
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// The old pod ends once the new one is ready; the Deployment is restarted once,
// and one node is launched for the two pods.
//
// Rule SURGE-2.
func TestSurgeLeavesNoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, nil)
		a.drain(60)
		if a.gap {
			t.Error("no pod was ready for a moment")
		}
		if a.rolled != 1 || !a.published("Surged: Began a rolling restart") {
			t.Errorf("restarted %d times, said %q", a.rolled, a.e.EventTexts("web"))
		}
		if n := len(a.e.Cloud.ProviderIDs()); n != 1 {
			t.Errorf("%d instances for one pod", n)
		}
		if a.e.Counter("karpenter_pods_eviction_requests_total") != 0 {
			t.Error("the pod was evicted all the same")
		}
	})
}

// A restart of karve in the middle restarts nothing twice, wherever it was killed.
//
// Rule SURGE-3.
func TestSurgeSurvivesRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, nil)
		claim := a.e.Claims()[0]
		a.e.Delete(&claim)
		for exists(a.e, claim.Name) {
			a.e.Restart()
			a.step()
		}
		if a.gap || a.rolled != 1 {
			t.Errorf("restarted %d times, a gap: %t", a.rolled, a.gap)
		}
	})
}

// The node of the new pod may be drained next: that is another move.
//
// Rule SURGE-3.
func TestSurgeAgainOnTheNextNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, nil)
		a.drain(60)
		a.drain(60)
		if a.gap || a.rolled != 2 {
			t.Errorf("restarted %d times, a gap: %t", a.rolled, a.gap)
		}
	})
}

// A pod that cannot surge is evicted like any pod, and an event on the Deployment gives the
// reason.
//
// Rule SURGE-4.
func TestNoSurge(t *testing.T) {
	zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
	for _, test := range []struct {
		name, event string
		change      func(*appsv1.Deployment, *corev1.Pod)
	}{
		{"without the annotation", "", func(d *appsv1.Deployment, _ *corev1.Pod) { d.Annotations["karve.dev/surge"] = "false" }},
		{"misspelt", `is "yes"; it may be true or false`, func(d *appsv1.Deployment, _ *corev1.Pod) { d.Annotations["karve.dev/surge"] = "yes" }},
		{"two replicas", "", func(d *appsv1.Deployment, _ *corev1.Pod) { d.Spec.Replicas = new(int32(2)) }},
		{"recreated", "its strategy is Recreate", func(d *appsv1.Deployment, _ *corev1.Pod) {
			d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		}},
		{"no surge", "its maxSurge is 0", func(d *appsv1.Deployment, _ *corev1.Pod) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &zero, MaxUnavailable: &one}
		}},
		{"old first", "its maxUnavailable is 1", func(d *appsv1.Deployment, _ *corev1.Pod) {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &one}
		}},
		{"paused", "its rollouts are paused", func(d *appsv1.Deployment, _ *corev1.Pod) { d.Spec.Paused = true }},
		{"with a disk", "its volume claim data can be mounted on one node at a time", func(_ *appsv1.Deployment, p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}},
		{"an orphan", "", func(_ *appsv1.Deployment, p *corev1.Pod) { p.OwnerReferences = nil }},
		{"of a ReplicaSet that is gone", "", func(_ *appsv1.Deployment, p *corev1.Pod) { p.OwnerReferences[0].Name = "gone" }},
		{"of another ReplicaSet of the name", "", func(_ *appsv1.Deployment, p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := surging(t, nil, test.change)
				if test.name == "with a disk" {
					a.e.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"},
						Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}})
				}
				a.drain(20)
				if a.rolled != 0 || a.e.Counter("karpenter_pods_eviction_requests_total") == 0 {
					t.Errorf("restarted %d times and not evicted", a.rolled)
				}
				if texts := a.e.EventTexts("web"); test.event == "" && len(texts) > 0 || !a.published(test.event) && test.event != "" {
					t.Errorf("published %q, want %q", texts, test.event)
				}
			})
		})
	}
}

// Where karve is not told to surge it restarts nothing: it evicts the pod, and an event on the
// Deployment says what to set.
//
// Rule SURGE-7.
func TestSurgeOnlyInNamedNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces []string
		surges     bool
	}{
		"none":    {nil, false},
		"another": {[]string{"kube-system", "defaults"}, false},
		"its own": {[]string{"kube-system", "default"}, true},
		"every":   {[]string{"*"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := surging(t, nil, nil)
				surges := a.e.Termination.Evictor.Surges
				surges.Namespaces = test.namespaces
				pod := controllertest.Get(a.e, &corev1.Pod{}, "web-0-pod")
				if can, err := surges.CanSurge(t.Context(), pod); can != test.surges || err != nil {
					t.Errorf("it can surge: %t, %v", can, err)
				}
				a.drain(20)
				evicted := a.e.Counter("karpenter_pods_eviction_requests_total") > 0
				if restarted := a.rolled > 0; restarted != test.surges || evicted == test.surges || a.published("--surge-namespaces") == test.surges {
					t.Errorf("restarted %t, evicted %t, published %q", restarted, evicted, a.e.EventTexts("web"))
				}
			})
		})
	}
}

// A new pod that never gets ready is waited for five minutes, restarts of karve or not.
//
// Rule SURGE-5.
func TestSurgeEnds(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := surging(t, nil, nil)
			a.neverReady = true
			claim := a.e.Claims()[0]
			a.e.Delete(&claim)
			start := time.Now()
			a.until(400, "the old pod is evicted", func() bool {
				if restarts {
					a.e.Restart()
				}
				return !a.has("web-0-pod")
			})
			if took := time.Since(start); took < 5*time.Minute || took > 6*time.Minute {
				t.Errorf("evicted after %s, want 5 minutes", took)
			}
			if a.rolled != 1 || !a.published("no new pod was ready within 5m0s") {
				t.Errorf("restarted %d times, said %q", a.rolled, a.e.EventTexts("web"))
			}
		})
	}
}

// An autoscaler that acts in the middle of it does not end a surge.
//
// Rule SURGE-5.
func TestScaledUpDuringSurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, nil)
		claim := a.restart()
		d := a.deployment()
		d.Spec.Replicas = new(int32(2))
		a.update(d)
		a.until(60, "the claim is gone", func() bool { return !exists(a.e, claim) })
		if a.gap || a.e.Counter("karpenter_pods_eviction_requests_total") != 0 {
			t.Error("the old pod was evicted before the new one was ready")
		}
	})
}

// A rollout that the Deployment calls failed is not waited for.
//
// Rule SURGE-5.
func TestFailedRolloutEndsSurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, nil)
		a.neverReady = true
		a.restart()
		d := a.deployment()
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		a.update(d)
		a.until(30, "the old pod is evicted", func() bool { return !a.has("web-0-pod") })
		if !a.published("its rollout fails: ProgressDeadlineExceeded") {
			t.Errorf("said %q", a.e.EventTexts("web"))
		}
	})
}

// A rollout that is under way already creates a replacement pod, so none is begun.
//
// Rule SURGE-3.
func TestRolloutUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, nil)
		d := a.deployment()
		d.Spec.Template.Annotations = map[string]string{"karve.dev/surged-for": "not karve, but an edit"}
		a.update(d)
		a.roll()
		a.drain(60)
		if a.gap || a.rolled != 1 {
			t.Errorf("%d rollouts, a gap: %t", a.rolled, a.gap)
		}
	})
}

// If a user undoes the restart, karve does not repeat it: the pod is evicted.
//
// Rule SURGE-5.
func TestUndoneRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, nil)
		a.neverReady = true
		a.restart()
		d := a.deployment()
		d.Spec.Template.Annotations, a.seen = nil, ""
		d.Annotations[rev] = "1"
		a.update(d)
		a.until(30, "the old pod is evicted", func() bool { return !a.has("web-0-pod") })
		if a.rolled != 1 || !a.published("its rollout was undone") {
			t.Errorf("restarted %d times, said %q", a.rolled, a.e.EventTexts("web"))
		}
	})
}

// The deadline of a node overrides a surge: one that cannot end in time is not
// begun, and one that does not is cut off.
//
// Rule SURGE-5.
func TestDeadlineOfSurge(t *testing.T) {
	for grace, restarts := range map[time.Duration]int{80 * time.Second: 0, 3 * time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			a := surging(t, func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.TerminationGracePeriod = &metav1.Duration{Duration: grace}
			}, nil)
			a.neverReady = true
			a.drain(int(grace/time.Second) + 20)
			if a.rolled != restarts {
				t.Errorf("restarted %d times with %s left, want %d", a.rolled, grace, restarts)
			}
		})
	}
}

// A protected pod is not moved by a surge either.
func TestProtectedPodDoesNotSurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := surging(t, nil, func(_ *appsv1.Deployment, p *corev1.Pod) {
			p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
		})
		claim := a.e.Claims()[0]
		a.e.Delete(&claim)
		for range 30 {
			a.step()
		}
		if a.rolled != 0 || !a.has("web-0-pod") {
			t.Error("a protected pod was moved")
		}
	})
}

// Whichever write fails or is the last before a crash, there is one restart and no gap.
//
// Rule SURGE-3.
func TestSurgeWhateverWriteFails(t *testing.T) {
	for _, mode := range []controllertest.Mode{controllertest.DieAfter, controllertest.LoseAnswer} {
		for at, struck := 1, true; struck; at++ {
			synctest.Test(t, func(t *testing.T) {
				a := surging(t, nil, nil)
				a.e.Faults.Mode, a.e.Faults.At = mode, a.e.Faults.Writes()+at
				a.drain(90)
				struck = a.e.Faults.Writes() >= a.e.Faults.At
				if a.gap || a.rolled != 1 {
					t.Fatalf("%s write %d: restarted %d times, a gap: %t", mode, at, a.rolled, a.gap)
				}
			})
		}
	}
}
