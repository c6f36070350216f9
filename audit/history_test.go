// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// A history tells an Auditor what happens, object by object, as time passes. Histories of exact judges
// have negative lags, so that what is told first happened first.
type history struct {
	t    *testing.T
	a    *Auditor
	now  time.Time
	last map[string]client.Object

	about string // the invariant that the history is about; empty means all
}

// begin is a Monday at noon.
var begin = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newHistory(t *testing.T, s Settings) *history {
	return &history{t: t, a: New(s), now: begin, last: map[string]client.Object{}}
}

// exact is a history without lags, lagging one with those of a cluster.
func exact(t *testing.T) *history { return newHistory(t, Settings{ObjectLag: -1, CloudLag: -1}) }

func lagging(t *testing.T) *history { return newHistory(t, Settings{}) }

// run runs histories by name, each exact, and compares the violations of the invariant that they are
// about with those in brackets at the end of the name: "… [S5]".
func run(t *testing.T, about string, histories map[string]func(h *history)) {
	t.Helper()
	runWith(t, exact, about, histories)
}

func runWith(t *testing.T, made func(*testing.T) *history, about string, histories map[string]func(h *history)) {
	t.Helper()
	for name, tell := range histories {
		t.Run(name, func(t *testing.T) {
			h := made(t)
			h.about = about
			tell(h)
			h.wait(h.a.settings.ObjectLag + h.a.settings.CloudLag)
			h.wait(h.a.settings.WriteLag)
			_, want, _ := strings.Cut(strings.TrimSuffix(name, "]"), "[")
			h.want(strings.Fields(want)...)
		})
	}
}

// want compares with the invariants of all violations so far, in order.
func (h *history) want(invariants ...string) {
	h.t.Helper()
	var got []string
	for _, v := range h.a.Violations() {
		if h.about == "" || h.about == v.Invariant {
			got = append(got, v.Invariant)
		}
	}
	if !slices.Equal(got, invariants) {
		h.t.Errorf("the violations are %q, want %q:", got, invariants)
		for _, v := range h.a.Violations() {
			h.t.Log(v)
		}
	}
}

// put tells of an object as it is from now on.
func (h *history) put(objects ...client.Object) {
	for _, o := range objects {
		key := fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
		is := o.DeepCopyObject().(client.Object)
		h.a.Object(h.now, h.last[key], is)
		h.last[key] = is
		h.a.Check(h.now)
	}
}

// remove tells that objects are gone.
func (h *history) remove(objects ...client.Object) {
	for _, o := range objects {
		key := fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
		h.a.Object(h.now, h.last[key], nil)
		delete(h.last, key)
		h.a.Check(h.now)
	}
}

// terminate tells that deletions were asked for.
func (h *history) terminate(objects ...client.Object) {
	for _, o := range objects {
		at := metav1.NewTime(h.now)
		o.SetDeletionTimestamp(&at)
		h.put(o)
	}
}

func (h *history) wait(d time.Duration) {
	h.now = h.now.Add(d)
	h.a.Check(h.now)
}

func (h *history) cloud(resources ...Resource) {
	h.a.Cloud(h.now, resources)
	h.a.Check(h.now)
}

// list tells of lists of the cloud once a minute, all the same.
func (h *history) list(d time.Duration, resources ...Resource) {
	for until := h.now.Add(d); h.now.Before(until); {
		h.cloud(resources...)
		h.wait(min(time.Minute, until.Sub(h.now)))
	}
	h.cloud(resources...)
}

// event tells of karve's event about an object.
func (h *history) event(about client.Object, reason string) {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", about), "*v1.")
	h.a.Object(h.now, nil, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(reason, h.now.UnixNano(), about.GetName())},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: about.GetName(), Namespace: about.GetNamespace(), UID: about.GetUID()},
		Reason:         reason, Source: corev1.EventSource{Component: "karpenter"},
	})
	h.a.Check(h.now)
}

// poolOf is a NodePool with limits, such as "cpu=8 nodes=2".
func poolOf(name, limits string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name)}}
	p.Spec.Limits = karpv1.Limits(resources(limits))
	return p
}

func resources(text string) corev1.ResourceList {
	var out corev1.ResourceList
	for _, field := range strings.Fields(text) {
		if out == nil {
			out = corev1.ResourceList{}
		}
		name, amount, _ := strings.Cut(field, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

// claimOf is a NodeClaim of a NodePool whose pods ask for that.
func claimOf(name, pool, requests string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Finalizers: []string{karpv1.TerminationFinalizer},
			Labels: map[string]string{karpv1.NodePoolLabelKey: pool}, Annotations: map[string]string{},
		},
		Spec: karpv1.NodeClaimSpec{Resources: karpv1.ResourceRequirements{Requests: resources(requests)}},
	}
}

// launched makes the claim one whose VM was created, with that capacity.
func launched(c *karpv1.NodeClaim, capacity string) *karpv1.NodeClaim {
	c.Status.ProviderID = "azure://" + vmID(c.Name)
	c.Status.Capacity = resources(capacity)
	return said(c, karpv1.ConditionTypeLaunched, metav1.ConditionTrue, "Launched")
}

// initialized makes the claim one whose Node takes pods.
func initialized(c *karpv1.NodeClaim, capacity string) *karpv1.NodeClaim {
	c.Status.NodeName = c.Name
	return said(launched(c, capacity), karpv1.ConditionTypeInitialized, metav1.ConditionTrue, "Initialized")
}

func said(c *karpv1.NodeClaim, condition string, status metav1.ConditionStatus, reason string) *karpv1.NodeClaim {
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(x opstatus.Condition) bool { return x.Type == condition })
	c.Status.Conditions = append(c.Status.Conditions, opstatus.Condition{Type: condition, Status: status, Reason: reason})
	return c
}

// nodeOf is the claim's Node, initialized and ready.
func nodeOf(c *karpv1.NodeClaim) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, UID: types.UID("node-" + c.Name), Labels: map[string]string{
			karpv1.NodePoolLabelKey: c.Labels[karpv1.NodePoolLabelKey], karpv1.NodeInitializedLabelKey: "true",
		}, Annotations: map[string]string{}},
		Spec: corev1.NodeSpec{ProviderID: "azure://" + vmID(c.Name)},
	}
	return readiness(n, corev1.ConditionTrue)
}

func readiness(n *corev1.Node, is corev1.ConditionStatus) *corev1.Node {
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: is}}
	return n
}

func taint(n *corev1.Node) *corev1.Node {
	n.Spec.Taints = append(n.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
	return n
}

func untaint(n *corev1.Node) *corev1.Node {
	n.Spec.Taints = nil
	return n
}

func vmID(name string) string {
	return "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/aks-" + name
}

// vmFor is the VM of a claim.
func vmFor(c *karpv1.NodeClaim) Resource {
	return Resource{ID: vmID(c.Name), Kind: VM, Tags: map[string]string{tagCluster: "c", tagClaimUID: string(c.UID)}}
}

// podOn is a pod of a ReplicaSet that is ready on a node; pending when the node is empty.
func podOn(name, node string) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "web", Name: name, UID: types.UID("pod-" + name), Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if node == "" {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		return p
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// evict has the eviction API delete a pod.
func (h *history) evict(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: evictedByAPI})
	h.put(p)
	h.terminate(p)
}

// pdbOf is a PodDisruptionBudget for all pods in "web" that allows so many disruptions.
func pdbOf(name string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID("pdb-" + name)},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: 1 + allowed, DesiredHealthy: 1},
	}
}
