// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Answers makes requests to an API server and says how each was answered, a line for each. Any API
// server of Kubernetes must give the same lines: the namespace exists, and nothing else runs in it
// that would touch Pods on nodes that do not exist.
func Answers(ctx context.Context, c client.Client, namespace string) []string {
	a := &asker{ctx: ctx, c: c, namespace: namespace}
	a.pods()
	a.patches()
	a.finalizers()
	a.customResources()
	a.evictions()
	a.lists()
	return a.lines
}

// asker makes requests.
type asker struct {
	ctx       context.Context
	c         client.Client
	namespace string
	lines     []string
}

func (a *asker) say(what string, err error, more ...any) {
	line := what + ": "
	switch {
	case err == nil:
		line += "done"
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		line += err.Error()
	default:
		line += string(apierrors.ReasonForError(err))
	}
	for _, m := range more {
		line += fmt.Sprint(", ", m)
	}
	a.lines = append(a.lines, line)
}

func (a *asker) pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "app"}}, AutomountServiceAccountToken: new(false),
			TerminationGracePeriodSeconds: new(int64(60)), SchedulerName: "nobody",
		},
	}
}

// exists says whether an object exists, and whether it is being deleted.
func (a *asker) exists(o client.Object) string {
	err := a.c.Get(a.ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		return "it is gone"
	case err != nil:
		return err.Error()
	case o.GetDeletionTimestamp() != nil:
		text := "it is being deleted"
		if s := o.GetDeletionGracePeriodSeconds(); s != nil {
			text += fmt.Sprintf(" within %d s", *s)
		}
		return text
	}
	return "it exists"
}

func (a *asker) pods() {
	p := a.pod("one", "")
	a.say("a pod is created", a.c.Create(a.ctx, p), p.Status.Phase, p.Generation)
	a.say("a pod of its name", a.c.Create(a.ctx, a.pod("one", "")))
	a.say("a pod with a version", a.c.Create(a.ctx, func() *corev1.Pod { x := a.pod("versioned", ""); x.ResourceVersion = "1"; return x }()))
	a.say("a pod with a bad name", a.c.Create(a.ctx, a.pod("One", "")))
	named := a.pod("", "")
	named.GenerateName = "many-"
	a.say("a pod with a generated name", a.c.Create(a.ctx, named), strings.HasPrefix(named.Name, "many-"), len(named.Name))
	wrong := types.UID("other")
	a.say("it is deleted by another UID", a.c.Delete(a.ctx, p, client.Preconditions{UID: &wrong}))
	a.say("it is deleted, without a node", a.c.Delete(a.ctx, p), a.exists(p))
	a.say("it is deleted again", a.c.Delete(a.ctx, p))

	p = a.pod("bound", "nowhere")
	a.say("a pod on a node", a.c.Create(a.ctx, p), p.Status.Phase)
	a.say("it is deleted", a.c.Delete(a.ctx, p), a.exists(p), p.Generation)
	a.say("it is deleted with more time", a.c.Delete(a.ctx, p, client.GracePeriodSeconds(100)), a.exists(p), p.Generation)
	a.say("it is deleted with less", a.c.Delete(a.ctx, p, client.GracePeriodSeconds(10)), a.exists(p), p.Generation)
	a.say("it is deleted with none", a.c.Delete(a.ctx, p, client.GracePeriodSeconds(0)), a.exists(p))

	p = a.pod("binds", "")
	a.say("a pod", a.c.Create(a.ctx, p))
	bind := func() error {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}}
		return a.c.SubResource("binding").Create(a.ctx, p.DeepCopy(), b)
	}
	a.say("it is bound", bind(), a.exists(p), p.Spec.NodeName, p.Generation)
	a.say("it is bound again", bind())
	a.say("it is deleted at once", a.c.Delete(a.ctx, p, client.GracePeriodSeconds(0)), a.exists(p))
}

func (a *asker) patches() {
	p := a.pod("patched", "nowhere")
	a.say("a pod", a.c.Create(a.ctx, p))
	stale := p.DeepCopy()
	change := func(of *corev1.Pod, status bool, o client.Patch, do func(*corev1.Pod)) error {
		x := of.DeepCopy()
		do(x)
		if status {
			return a.c.Status().Patch(a.ctx, x, o)
		}
		return a.c.Patch(a.ctx, x, o)
	}
	label := func(x *corev1.Pod) { x.Labels["tier"] = "web" }
	a.say("a label by a merge patch", change(p, false, client.MergeFrom(p), label))
	before := a.version(p)
	a.say("the same again changes nothing", change(stale, false, client.MergeFrom(stale), label), before == a.version(p))
	lock := client.MergeFromWithOptions(stale, client.MergeFromWithOptimisticLock{})
	a.say("a label by a stale version", change(stale, false, lock, func(x *corev1.Pod) { x.Labels["tier"] = "db" }))
	run := func(x *corev1.Pod) { x.Status.Phase = corev1.PodRunning }
	a.say("the status by the main part", change(p, false, client.MergeFrom(p), run), a.exists(p), p.Status.Phase)
	a.say("the status by its own part", change(p, true, client.MergeFrom(p), run), a.exists(p), p.Status.Phase, p.Generation)
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	a.say("a condition by a strategic patch", change(p, true, client.StrategicMergeFrom(p.DeepCopy()), func(x *corev1.Pod) {
		x.Status.Conditions = append(x.Status.Conditions, ready)
	}), a.exists(p), len(p.Status.Conditions))
	x := stale.DeepCopy()
	label(x)
	a.say("an update by a stale version", a.c.Update(a.ctx, x))
	x = p.DeepCopy()
	x.UID = "other"
	a.say("an update by another UID", a.c.Update(a.ctx, x))
	a.say("a patch of what does not exist", change(a.pod("none", ""), false, client.MergeFrom(a.pod("none", "")), label))
	a.say("it is deleted at once", a.c.Delete(a.ctx, p, client.GracePeriodSeconds(0)), a.exists(p))
}

func (a *asker) version(o client.Object) string {
	_ = a.exists(o)
	return o.GetResourceVersion()
}

func (a *asker) finalizers() {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "held", Finalizers: []string{"example.com/a", "example.com/b"}}}
	a.say("an object with finalizers", a.c.Create(a.ctx, m))
	a.say("it is deleted", a.c.Delete(a.ctx, m), a.exists(m))
	set := func(all ...string) error {
		x := m.DeepCopy()
		x.Finalizers = all
		return a.c.Patch(a.ctx, x, client.MergeFrom(m))
	}
	a.say("one finalizer goes", set("example.com/b"), a.exists(m), m.Finalizers)
	a.say("a new one comes", set("example.com/b", "example.com/c"), a.exists(m), m.Finalizers)
	a.say("the last one goes", set(), a.exists(m))
}

func (a *asker) customResources() {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	// A class of nobody's, so that no controller writes to the NodePool in between.
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "example.com", Kind: "NodeClass", Name: "none"}
	p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{}
	p.Status.Conditions = nil
	a.say("a NodePool", a.c.Create(a.ctx, p), p.Generation)
	text, _ := json.Marshal(p.Spec.Disruption)
	a.say("it has defaults", nil, string(text))
	bad := p.DeepCopy()
	bad.ObjectMeta = metav1.ObjectMeta{Name: a.namespace + "-bad"}
	bad.Spec.Weight = new(int32(1000))
	a.say("a NodePool out of bounds", a.c.Create(a.ctx, bad))
	x := p.DeepCopy()
	x.Spec.Weight = new(int32(7))
	a.say("its spec changes", a.c.Patch(a.ctx, x, client.MergeFrom(p)), x.Generation)
	x.Labels = map[string]string{"a": "b"}
	a.say("its labels change", a.c.Patch(a.ctx, x, client.MergeFrom(p)), x.Generation)
	x = p.DeepCopy()
	x.Status.NodeClassObservedGeneration = 3
	a.say("its status by the main part", a.c.Patch(a.ctx, x, client.MergeFrom(p)), a.exists(p), p.Status.NodeClassObservedGeneration)
	x = p.DeepCopy()
	x.Status.NodeClassObservedGeneration = 3
	x.Spec.Weight = new(int32(9))
	x.Labels = map[string]string{"a": "b", "c": "d"}
	a.say("all by the status's part", a.c.Status().Patch(a.ctx, x, client.MergeFrom(p)), a.exists(p), p.Status.NodeClassObservedGeneration, ptr.Deref(p.Spec.Weight, 0), len(p.Labels), p.Generation)
	a.say("it is deleted", a.c.Delete(a.ctx, p), a.exists(p))
}

func (a *asker) evictions() {
	one := a.running("evicted")
	evict := func(p *corev1.Pod, dryRun bool) error {
		e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: p.Name}, DeleteOptions: &metav1.DeleteOptions{}}
		if dryRun {
			e.DeleteOptions.DryRun = []string{metav1.DryRunAll}
		}
		return a.c.SubResource("eviction").Create(a.ctx, p.DeepCopy(), e)
	}
	budget := func(name string) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
		b.Spec.Selector, b.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "evicted"}}, new(intstr.FromInt32(0))
		return b
	}
	first := budget("first")
	a.say("a budget", a.c.Create(a.ctx, first), first.Generation)
	// Whether its status is known yet differs between servers; that the eviction is refused does not.
	a.say("an eviction against the budget", evict(one, false), a.exists(one))
	second := budget("second")
	a.say("another budget", a.c.Create(a.ctx, second))
	a.say("an eviction against two", evict(one, false), a.exists(one))
	a.say("the budgets go", a.c.Delete(a.ctx, first))
	a.say("both", a.c.Delete(a.ctx, second))
	a.say("an eviction on trial", evict(one, true), a.exists(one))
	a.say("an eviction", evict(one, false), a.exists(one))
	a.say("an eviction of what is leaving", evict(one, false), a.exists(one))
	a.say("it is deleted at once", a.c.Delete(a.ctx, one, client.GracePeriodSeconds(0)), a.exists(one))
	a.say("an eviction of what is gone", evict(one, false))
}

// running is a pod that runs and is ready.
func (a *asker) running(name string) *corev1.Pod {
	p := a.pod(name, "nowhere")
	err := a.c.Create(a.ctx, p)
	x := p.DeepCopy()
	x.Status.Phase = corev1.PodRunning
	x.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err == nil {
		err = a.c.Status().Patch(a.ctx, x, client.MergeFrom(p))
	}
	a.say("a pod runs", err)
	return x
}

func (a *asker) lists() {
	for _, name := range []string{"a", "b", "c"} {
		a.say("a pod "+name, a.c.Create(a.ctx, a.pod(name, "list-"+name)))
	}
	list := func(what string, opts ...client.ListOption) {
		var l corev1.PodList
		err := a.c.List(a.ctx, &l, append(opts, client.InNamespace(a.namespace))...)
		var names []string
		for i := range l.Items {
			if len(l.Items[i].Name) == 1 {
				names = append(names, l.Items[i].Name)
			}
		}
		a.say(what, err, names, l.Continue != "")
	}
	list("all", client.HasLabels{"app"})
	list("by label", client.MatchingLabels{"app": "b"})
	list("by node", client.MatchingFields{"spec.nodeName": "list-c"})
	list("by a field that none selects by", client.MatchingFields{"spec.hostname": "x"})
	list("a page", client.Limit(2), client.MatchingFields{"metadata.name": "a"})
	for _, name := range []string{"a", "b", "c"} {
		a.say("pod "+name+" goes", a.c.Delete(a.ctx, a.pod(name, ""), client.GracePeriodSeconds(0)))
	}
}
