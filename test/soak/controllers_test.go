// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/provider/memory"
)

// All controllers together hold no more after hundreds of NodePools, node classes, buffers,
// workloads and VMs than after half of them. The last are gone in the end, so what is
// held then is what a process keeps for ever.
//
// Rule MEMORY-2.
func TestControllersForgetWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controllers{Env: controllertest.New(t, memory.Options{Create: 5 * time.Second, Delete: 5 * time.Second}), r: rand.New(rand.NewPCG(*seed, 351))}
		c.Pace = 3 * time.Second
		soak{
			half: perHalf(15), bytes: 1 << 20, slack: numbers,
			roots: []any{c.Mirror, c.Metrics, c.Events, c.Provisioner, c.Lifecycle, c.Termination, c.Disruption, c.Interruption,
				c.Pools, c.Overlays, c.Buffers, c.Static, c.Collector, c.Provider},
			skipped: []reflect.Type{reflect.TypeFor[*memory.Cloud]()},
			live:    c.live,
			rest:    c.rest,
		}.check(t)
	})
}

type controllers struct {
	*controllertest.Env
	r *rand.Rand
	// gone are objects that were deleted, for the controllers that hear of them.
	gone []func()
}

// live lets a class, a pool, a buffer and a workload come; VMs are launched for them, and
// all goes again.
func (c *controllers) live(generation int) {
	name := fmt.Sprintf("g%d", generation)
	class := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready"}}},
	}}
	class.SetGroupVersionKind(controllertest.NodeClassGVK())
	class.SetName("class-" + name)
	c.Create(class)
	pool := controllertest.Pool("pool-"+name, "30s")
	pool.Spec.Template.Spec.NodeClassRef.Name = class.GetName()
	pool.Spec.Template.Labels = map[string]string{"tier": name, "tier-" + name: "a"}
	c.Create(pool)
	buffer, template := c.buffer(name)
	pods := c.workload(name)
	c.until("VMs for all", func() bool { return c.Ready() > 0 && c.Ready() == len(c.Claims()) && c.bound(pods) })
	c.Steps(c.r.IntN(4))
	for _, p := range pods {
		c.Delete(p)
	}
	c.delete(buffer, c.Buffers)
	c.Delete(template)
	if c.r.IntN(2) == 0 { // as the API server's garbage collector would, once the pool is gone
		for _, claim := range c.Claims() {
			c.Delete(&claim)
		}
	}
	c.until("all VMs are gone", func() bool { return len(c.Claims()) == 0 && len(c.Nodes()) == 0 })
	c.delete(pool, c.Pools)
	c.Delete(class)
	c.Steps(2)
	c.clean()
}

// until steps, with kubelets and a scheduler, until the condition holds.
func (c *controllers) until(what string, holds func() bool) {
	c.Until(200, what, func() bool {
		c.Join()
		return holds()
	})
}

// delete takes an object away, and lets its controller hear of that: at once and an hour later.
func (c *controllers) delete(o client.Object, r reconcile.Reconciler) {
	c.Delete(o)
	hear := func() {
		if _, err := r.Reconcile(c.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}); err != nil {
			c.T.Errorf("hearing that %s is gone: %v", o.GetName(), err)
		}
	}
	hear()
	c.gone = append(c.gone, hear)
}

func (c *controllers) buffer(name string) (*autoscalingv1beta1.CapacityBuffer, *corev1.PodTemplate) {
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chunk-" + name}}
	template.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "chunk-" + name}}, Spec: controllertest.Pod("x", "1", "1Gi").Spec}
	template.Template.Spec.NodeSelector = map[string]string{"tier": name}
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "buffer-" + name}}
	buffer.Spec.PodTemplateRef, buffer.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: template.Name}, new(int32(1))
	c.Create(template)
	c.Create(buffer)
	return buffer, template
}

func (c *controllers) workload(name string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range 2 + c.r.IntN(3) {
		p := controllertest.Pod(fmt.Sprintf("%s-%d", name, i), fmt.Sprintf("%dm", 500+c.r.IntN(3000)), "1Gi")
		p.Labels = map[string]string{"app": name, "app-" + name: fmt.Sprint(i), "job": p.Name}
		p.Spec.NodeSelector = map[string]string{"tier-" + name: "a"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelHostname, MaxSkew: 2, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app-" + name: fmt.Sprint(i)}}}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set-" + name, UID: "set-" + p.UID, Controller: new(true)}}
		c.Create(p)
		pods = append(pods, p)
	}
	return pods
}

// bound binds every pod to the node that is there for it, and reports whether all are.
func (c *controllers) bound(pods []*corev1.Pod) bool {
	all := true
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			continue
		}
		node := ""
		for _, m := range c.Mirror.ManagedNodes() {
			if m.Node != nil && m.Node.Labels[karpv1.NodeInitializedLabelKey] == "true" {
				for _, promised := range c.Mirror.NominatedTo(m.Claim.Name) {
					if promised.Name == p.Name {
						node = m.Node.Name
					}
				}
			}
		}
		if all = all && node != ""; node != "" {
			c.Bind(p.Name, node)
			controllertest.Get(c.Env, p, p.Name)
		}
	}
	return all
}

// clean deletes what the cluster itself would end by now.
func (c *controllers) clean() {
	events := &corev1.EventList{}
	if err := c.API.List(c.T.Context(), events); err != nil {
		c.T.Fatal(err)
	}
	for i := range events.Items {
		c.Delete(&events.Items[i])
	}
}

// rest lets hours pass, in which controllers hear once more of what is gone.
func (c *controllers) rest() {
	for range 3 {
		time.Sleep(time.Hour)
		for _, hear := range c.gone {
			hear()
		}
		c.Steps(2)
	}
	c.gone = nil
	c.clean()
}
