// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/controllertest"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/interruption"
	"github.com/karve-dev/karve/controller/lifecycle"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/nodepool"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/controller/termination"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/memory"
)

// cluster is an API with what runs around it: karve, kubelets and a scheduler.
type cluster struct {
	t     testing.TB
	azure *azureemulator.Server
	cloud *transport
	api   client.WithWatch // without delay, and without watch events
	slow  client.Client    // as controllers know it

	metrics                       *metrics.Set
	mirror                        *state.Mirror
	lifecycle, interrupted, nodes *queue
	changes                       chan change
	running                       sync.WaitGroup
	halt                          context.CancelFunc

	mu      sync.Mutex
	free    map[string]bool    // nodes that take a pod
	homes   map[string]string  // pod → node
	pending []string           // pods
	ends    map[string]*podEnd // of pods whose VM was taken back
	noticed map[string]bool    // VMs
}

// podEnd is how a pod of a VM that was taken back ended.
type podEnd struct {
	grace                time.Duration
	noticed, asked, gone time.Time // gone: the VM
	end                  time.Time // when its grace is over
}

// graceGot is how long the pod had to end itself: negative when it was not asked.
func (e *podEnd) graceGot() time.Duration {
	switch {
	case e.asked.IsZero():
		return -1
	case e.gone.IsZero() || e.gone.After(e.end):
		return e.end.Sub(e.asked)
	}
	return e.gone.Sub(e.asked)
}

func newCluster(t testing.TB, o Options) *cluster {
	t.Helper()
	ctx, halt := context.WithCancel(context.Background())
	c := &cluster{t: t, halt: halt, changes: make(chan change, 1<<20), free: map[string]bool{}, homes: map[string]string{}, ends: map[string]*podEnd{}, noticed: map[string]bool{}}
	env := controllertest.New(t, memory.Options{}) // for its API
	c.api = env.API
	c.slow = c.delayedAPI(c.api)
	var err error
	if c.azure, err = newAzure(ctx, o, c); err != nil {
		t.Fatal(err)
	}
	c.cloud = &transport{next: c.azure.InProcess(), readTakes: o.ReadTakes}
	cloud, err := newProvider(ctx, c.azure, c.cloud, o.Share)
	if err != nil {
		t.Fatal(err)
	}
	c.running.Go(func() { _ = cloud.Run(ctx) }) // ends with the context
	c.startKarve(ctx, cloud)
	c.running.Go(func() { c.watch(ctx) })
	c.createPool(ctx)
	return c
}

// createPool makes the NodePool and has karve reconcile it, once: it does not change.
func (c *cluster) createPool(ctx context.Context) {
	pool := spotPool()
	if err := c.api.Create(ctx, pool); err != nil {
		c.t.Fatal(err)
	}
	judge := &nodepool.Reconciler{Client: c.api, Mirror: c.mirror, Metrics: c.metrics, Log: logr.Discard(), NodeClassGVK: controllertest.NodeClassGVK(), Health: &registrationhealth.Ledger{}}
	for range 2 {
		if _, err := judge.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pool)}); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.api.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
		c.t.Fatal(err)
	}
	c.mirror.SetPool(pool)
}

// spotPool has spot VMs of four vCPUs only, so that each holds one pod.
func spotPool() *karpv1.NodePool {
	pool := controllertest.Pool("spot", "Never")
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeSpot}},
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: sizes()},
	}
	return pool
}

// startKarve wires the controllers that have to do with VMs as the manager does.
func (c *cluster) startKarve(ctx context.Context, cloud *azure.Provider) {
	log, class := logr.Discard(), controllertest.NodeClassGVK().GroupKind()
	c.metrics = metrics.New(prometheus.NewRegistry())
	set := c.metrics
	recorder := events.New(c.api, log, set.EventsDropped.Inc)
	batches := provision.NewBatcher(0, 0)
	c.mirror = state.NewMirror(batches.Trigger)
	c.mirror.OnUrgent = batches.Urgent
	keeper := catalog.New(cloud, c.mirror, set)
	provisioner := &provision.Provisioner{Client: c.slow, Live: c.slow, Mirror: c.mirror, Catalog: keeper, Batches: batches, Events: recorder, Metrics: set, Log: log}
	c.lifecycle = newQueue(ctx, &c.running, &lifecycle.Reconciler{Client: c.slow, Live: c.slow, Mirror: c.mirror, Catalog: keeper, Provider: cloud, Events: recorder, Metrics: set, Log: log, NodeClassGVK: controllertest.NodeClassGVK(),
		Terminator: &termination.ClaimReconciler{Client: c.slow, Provider: cloud, Events: recorder, Metrics: set, Log: log, NodeClassKind: class}})
	c.interrupted = newQueue(ctx, &c.running, &interruption.Reconciler{Client: c.slow, Provider: cloud, SpotObserver: cloud, Events: recorder, Metrics: set, Log: log, NodeClassKind: class})
	evictor := termination.NewEvictor(c.slow, recorder, set, log)
	evictor.BeforeRemoval = c.mirror.BeginEviction
	c.nodes = newQueue(ctx, &c.running, &termination.NodeReconciler{Client: c.slow, Live: c.slow, Provider: cloud, Evictor: evictor, Events: recorder, Metrics: set, Log: log})
	c.mirror.AssumeSynced()
	c.running.Go(func() { _ = recorder.Start(ctx) })
	c.running.Go(func() { _ = provisioner.Start(ctx) })
}

// urgent counts the NodeClaims whose VMs are launched before others.
func (c *cluster) urgent() int {
	claims := &karpv1.NodeClaimList{}
	if err := c.api.List(context.Background(), claims); err != nil {
		c.t.Error(err)
	}
	n := 0
	for i := range claims.Items {
		if claims.Items[i].Annotations[kube.UrgentAnnotation] == "true" {
			n++
		}
	}
	return n
}

func (c *cluster) stop() {
	c.halt()
	for _, q := range []*queue{c.lifecycle, c.interrupted, c.nodes} {
		q.ShutDown()
	}
	c.running.Wait()
	if err := c.azure.Close(); err != nil {
		c.t.Error(err)
	}
}

func (c *cluster) await(limit time.Duration, what string, holds func() bool) {
	c.t.Helper()
	for start := time.Now(); !holds(); time.Sleep(time.Second) {
		if time.Since(start) > limit {
			c.t.Fatalf("after %v, still not: %s", limit, what)
		}
	}
}

// Run is a VM: its kubelet registers a Node, and an agent runs on it.
func (c *cluster) Run(ctx context.Context, m azureemulator.VM) {
	claim := c.claimOf(ctx, m)
	if claim == nil {
		return
	}
	n := nodeOf(claim, strings.ToLower(m.ComputerName))
	if err := c.slow.Create(ctx, n); err != nil {
		c.t.Errorf("registering %s: %v", n.Name, err)
	}
	c.runAgent(ctx, n.Name, m.Name)
	c.unplug(n.Name)
}

// claimOf waits for the VM's claim to know it.
func (c *cluster) claimOf(ctx context.Context, m azureemulator.VM) *karpv1.NodeClaim {
	key := client.ObjectKey{Name: m.Tags[tagClaim]}
	for ctx.Err() == nil {
		claim := &karpv1.NodeClaim{}
		if err := c.api.Get(ctx, key, claim); err != nil {
			c.t.Errorf("reading the claim of VM %s: %v", m.Name, err)
			return nil
		}
		if claim.Status.ProviderID != "" && len(claim.Status.Allocatable) > 0 {
			return claim
		}
		time.Sleep(time.Second)
	}
	return nil
}

// tagClaim is the tag in which karve writes a VM's claim.
const tagClaim = "karve.dev_claim"

func nodeOf(claim *karpv1.NodeClaim, name string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Spec.ProviderID = name, claim.Status.ProviderID
	n.Labels = map[string]string{corev1.LabelHostname: name}
	n.Spec.Taints = []corev1.Taint{karpv1.UnregisteredNoExecuteTaint}
	n.Status = corev1.NodeStatus{
		Capacity: claim.Status.Capacity, Allocatable: claim.Status.Allocatable,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	return n
}

// unplug is the VM's end: its pods run no more, and its Node is silent.
func (c *cluster) unplug(node string) {
	c.mu.Lock()
	for pod, home := range c.homes {
		if e := c.ends[pod]; home == node && e != nil {
			e.gone = time.Now()
		}
	}
	c.mu.Unlock()
	ctx := context.Background()
	stored := &corev1.Node{}
	if err := c.api.Get(ctx, client.ObjectKey{Name: node}, stored); err != nil {
		return // it is gone already
	}
	n := stored.DeepCopy()
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	_ = c.slow.Patch(ctx, n, client.MergeFrom(stored)) // it may go just now
}

// recordNotice records that a VM's eviction is announced now.
func (c *cluster) recordNotice(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for pod, node := range c.homes {
		if strings.EqualFold(node, vm) {
			p := c.pod(pod)
			c.ends[pod] = &podEnd{grace: time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second, noticed: time.Now()}
			return
		}
	}
	c.t.Errorf("no pod runs on %s", vm)
}

func (c *cluster) pod(name string) *corev1.Pod {
	p := &corev1.Pod{}
	if err := c.api.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
		c.t.Error(fmt.Errorf("reading pod %s: %w", name, err))
		p.Spec.TerminationGracePeriodSeconds = new(int64(0))
	}
	return p
}
