// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/agent"
	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/lookup"
)

// How long the API takes for a write, and a watch to report it.
const (
	apiTakes   = 5 * time.Millisecond
	watchTakes = 10 * time.Millisecond
)

// change is an object that was written.
type change struct {
	at time.Time
	of client.Object // of its kind and name; the rest may be old
}

// delayedAPI is the API with its delays, and with kubelets that let pods have their grace.
func (c *cluster) delayedAPI(api client.WithWatch) client.WithWatch {
	tell := func(o client.Object, err error) error {
		time.Sleep(apiTakes)
		if err == nil {
			c.changes <- change{time.Now(), o.DeepCopyObject().(client.Object)}
		}
		return err
	}
	return interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return tell(o, api.Create(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, api client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return tell(o, api.Patch(ctx, o, p, opts...))
		},
		Update: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return tell(o, api.Update(ctx, o, opts...))
		},
		SubResourcePatch: func(ctx context.Context, api client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return tell(o, api.SubResource(sub).Patch(ctx, o, p, opts...))
		},
		Delete: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if p, ok := o.(*corev1.Pod); ok {
				given := (&client.DeleteOptions{}).ApplyOptions(opts).GracePeriodSeconds
				c.terminate(p, time.Duration(*given)*time.Second)
				return nil
			}
			return tell(o, api.Delete(ctx, o, opts...))
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			p := o.(*corev1.Pod) // evictions only
			c.terminate(p, time.Duration(*p.Spec.TerminationGracePeriodSeconds)*time.Second)
			return nil
		},
	})
}

// terminate lets the pod run for the grace it is given, or for what it was given before
// where that is less; then it is gone, and its owner makes another.
func (c *cluster) terminate(p *corev1.Pod, grace time.Duration) {
	now := time.Now()
	c.mu.Lock()
	e := c.ends[p.Name]
	if e == nil || !e.end.IsZero() && !e.end.After(now.Add(grace)) {
		c.mu.Unlock()
		if e == nil {
			c.t.Errorf("pod %s is asked to go, and its VM was not evicted", p.Name)
		}
		return
	}
	if e.asked.IsZero() {
		e.asked = now
	}
	e.end = now.Add(grace)
	c.mu.Unlock()
	c.running.Go(func() {
		time.Sleep(grace)
		c.removeEnded(p, now.Add(grace))
	})
}

// removeEnded removes a pod whose grace period ended then, if it did not become shorter since.
func (c *cluster) removeEnded(p *corev1.Pod, then time.Time) {
	c.mu.Lock()
	over := c.ends[p.Name].end.Equal(then)
	c.mu.Unlock()
	if !over {
		return
	}
	ctx := context.Background()
	if err := c.api.Delete(ctx, p.DeepCopy()); err != nil {
		return // it was removed with its node
	}
	c.changes <- change{time.Now(), p}
	c.createPod(p.Name+"-next", *p.Spec.TerminationGracePeriodSeconds, false)
}

// createPod makes a pod that fills a VM of four vCPUs, of an owner that makes another
// once it is gone.
func (c *cluster) createPod(name string, grace int64, protected bool) {
	p := controllertest.Pod(name, "3", "4Gi")
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "work", UID: "work", Controller: new(true)}}
	if protected {
		p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	}
	if err := c.api.Create(context.Background(), p); err != nil {
		c.t.Errorf("creating pod %s: %v", name, err)
		return
	}
	c.mu.Lock()
	c.pending = append(c.pending, name)
	c.mu.Unlock()
	c.changes <- change{time.Now(), p}
}

// watch notifies karve and the scheduler of every change, a moment later.
func (c *cluster) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case x := <-c.changes:
			time.Sleep(time.Until(x.at.Add(watchTakes)))
			c.notify(ctx, x.of)
			c.schedule(ctx)
		}
	}
}

// notify shows an object as it is now to the watchers of its kind.
func (c *cluster) notify(ctx context.Context, o client.Object) {
	err := c.api.Get(ctx, client.ObjectKeyFromObject(o), o)
	gone := apierrors.IsNotFound(err)
	switch o := o.(type) {
	case *corev1.Pod:
		setOrRemove(o, gone, func(p *corev1.Pod) { c.mirror.SetPod(p, false) }, c.mirror.RemovePod)
	case *corev1.Node:
		setOrRemove(o, gone, c.mirror.SetNode, c.mirror.RemoveNode)
		c.nodes.wake(o)
		c.wakeClaims(ctx, o)
		c.reportNode(o, gone)
	case *karpv1.NodeClaim:
		setOrRemove(o, gone, c.mirror.SetClaim, c.mirror.RemoveClaim)
		c.lifecycle.wake(o)
		c.interrupted.wake(o)
	}
}

func setOrRemove[T client.Object](o T, gone bool, set, remove func(T)) {
	if gone {
		remove(o)
		return
	}
	set(o)
}

func (c *cluster) wakeClaims(ctx context.Context, n *corev1.Node) {
	claims, err := lookup.ClaimsOf(ctx, c.api, n)
	if err != nil {
		c.t.Error(err)
	}
	for i := range claims {
		c.lifecycle.wake(&claims[i])
		c.interrupted.wake(&claims[i])
	}
}

// reportNode reports to the scheduler whether a node takes pods.
func (c *cluster) reportNode(n *corev1.Node, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := !gone && n.DeletionTimestamp == nil && len(n.Spec.Taints) == 0 && n.Labels[karpv1.NodeInitializedLabelKey] == "true"
	for _, home := range c.homes {
		open = open && home != n.Name
	}
	delete(c.free, n.Name)
	if open {
		c.free[n.Name] = true
	}
}

// schedule binds pods while there are nodes for them.
func (c *cluster) schedule(ctx context.Context) {
	for {
		c.mu.Lock()
		node := ""
		for name := range c.free {
			node = name
			break
		}
		if node == "" || len(c.pending) == 0 {
			c.mu.Unlock()
			return
		}
		pod := c.pending[0]
		c.pending = c.pending[1:]
		delete(c.free, node)
		c.homes[pod] = node
		c.mu.Unlock()
		c.bind(ctx, pod, node)
	}
}

func (c *cluster) bind(ctx context.Context, pod, node string) {
	p := &corev1.Pod{}
	if err := c.api.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: pod}, p); err != nil {
		c.t.Errorf("binding pod %s: %v", pod, err)
		return
	}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := c.api.Update(ctx, p); err != nil {
		c.t.Errorf("binding pod %s: %v", pod, err)
		return
	}
	c.changes <- change{time.Now(), p}
}

func (c *cluster) runningPods() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.homes)
}

// runAgent runs until the VM ends.
func (c *cluster) runAgent(ctx context.Context, node, vm string) {
	a := &agent.Agent{Node: node, Client: c.slow, Log: logr.Discard(),
		Metadata: agent.Metadata{Endpoint: agent.Endpoint, HTTP: &http.Client{Transport: c.azure.MetadataOf(vm), Timeout: agent.Direct().Timeout}}}
	a.Run(ctx)
}
