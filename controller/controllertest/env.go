// SPDX-License-Identifier: Apache-2.0

// Package controllertest runs the real controllers against an in-memory API and
// an in-memory cloud, step by step, for tests. Inside a testing/synctest bubble
// its time is virtual.
//
// It does not simulate a scheduler or a kubelet beyond what tests ask for: Join
// creates the nodes of instances, and tests bind pods themselves. The zero Env is not
// usable; see New.
package controllertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/controller/buffer"
	"github.com/karve-dev/karve/controller/catalog"
	"github.com/karve-dev/karve/controller/control"
	"github.com/karve-dev/karve/controller/disruption"
	"github.com/karve-dev/karve/controller/events"
	"github.com/karve-dev/karve/controller/gc"
	"github.com/karve-dev/karve/controller/guard"
	"github.com/karve-dev/karve/controller/interruption"
	"github.com/karve-dev/karve/controller/lifecycle"
	"github.com/karve-dev/karve/controller/metrics"
	"github.com/karve-dev/karve/controller/nodepool"
	"github.com/karve-dev/karve/controller/overlay"
	"github.com/karve-dev/karve/controller/provision"
	"github.com/karve-dev/karve/controller/registrationhealth"
	"github.com/karve-dev/karve/controller/static"
	"github.com/karve-dev/karve/controller/termination"
	"github.com/karve-dev/karve/engine/disrupt"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/memory"
)

// NodeClassGVK is the kind of node class of the Env's pools.
func NodeClassGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "test.karve.dev", Version: "v1", Kind: "TestNodeClass"}
}

// Env is a cluster, a cloud and a karve that can be killed and started again.
type Env struct {
	T testing.TB
	// API is the cluster; it outlives every karve.
	API    client.WithWatch
	stored *store
	// Cloud too.
	Cloud  *memory.Cloud
	Faults *Faults
	// Pace is how much time passes with each step; New sets it to a second.
	Pace time.Duration
	// ClaimWatchLost keeps changes of NodeClaims from the mirror: their watch is interrupted.
	ClaimWatchLost bool
	// Guards are those of every process; the zero value holds nothing.
	Guards guard.Guards
	// Disrupt changes the options of disruption at every restart; nil leaves the defaults.
	Disrupt func(*disruption.Options)

	// The fields below belong to one process; Restart replaces them all.
	Client        client.Client
	Provider      provider.Provider
	Mirror        *state.Mirror
	Metrics       *metrics.Set
	Registry      *prometheus.Registry
	Events        *events.Recorder
	Provisioner   *provision.Provisioner
	Lifecycle     *lifecycle.Reconciler
	Termination   *termination.NodeReconciler
	Disruption    *disruption.Controller // nil: no node is disrupted
	Interruption  *interruption.Reconciler
	Pools         *nodepool.Reconciler
	Overlays      *overlay.Reconciler
	Buffers       *buffer.Reconciler
	Static        *static.Reconciler
	Collector     *gc.Collector
	Pause         *control.Pause
	woken         map[string]bool
	seenPods      map[types.UID]*corev1.Pod
	seenNodes     map[string]*corev1.Node
	seenClaims    map[string]*karpv1.NodeClaim
	seenBudgets   map[types.UID]*policyv1.PodDisruptionBudget
	seenPools     map[string]*karpv1.NodePool
	stopListening context.CancelFunc
}

// New makes an Env with one ready node class "default" and no pool.
func New(t testing.TB, cloud memory.Options) *Env {
	t.Helper()
	e := &Env{T: t, Cloud: memory.NewCloud(cloud), Faults: &Faults{}, Pace: time.Second}
	e.API, e.stored = newAPI(t)
	class := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready"}}},
	}}
	class.SetGroupVersionKind(NodeClassGVK())
	class.SetName("default")
	e.Create(class)
	e.Restart()
	t.Cleanup(func() { e.stopListening() })
	return e
}

func newAPI(t testing.TB) (client.WithWatch, *store) {
	scheme := smallScheme(t)
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, scope(kind))
	}
	mapper.Add(NodeClassGVK(), meta.RESTScopeRoot)
	kept := newStore(scheme)
	fakeClient := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjectTracker(kept).
		WithStatusSubresource(&karpv1.NodeClaim{}, &karpv1.NodePool{}, &karpv1alpha1.NodeOverlay{}, &autoscalingv1beta1.CapacityBuffer{}).Build()
	return born(kept.answering(fakeClient)), kept
}

// smallScheme has only the kinds that controllers use: the fake client goes through every
// kind of its scheme each time it is made.
func smallScheme(t testing.TB) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	metav1.AddToGroupVersion(scheme, karpenter)
	scheme.AddKnownTypes(karpenter, &karpv1.NodePool{}, &karpv1.NodePoolList{}, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	alpha := schema.GroupVersion{Group: "karpenter.sh", Version: "v1alpha1"}
	metav1.AddToGroupVersion(scheme, alpha)
	scheme.AddKnownTypes(alpha, &karpv1alpha1.NodeOverlay{}, &karpv1alpha1.NodeOverlayList{})
	autoscaling := schema.GroupVersion{Group: autoscalingv1beta1.Group, Version: "v1beta1"}
	metav1.AddToGroupVersion(scheme, autoscaling)
	scheme.AddKnownTypes(autoscaling, &autoscalingv1beta1.CapacityBuffer{}, &autoscalingv1beta1.CapacityBufferList{})
	return scheme
}

func scope(kind schema.GroupVersionKind) meta.RESTScope {
	switch kind.Kind {
	case "Node", "NodeClaim", "NodePool", "NodeOverlay", "Namespace", "VolumeAttachment", "PersistentVolume":
		return meta.RESTScopeRoot
	}
	return meta.RESTScopeNamespace
}

// Restart starts a new karve process over the same cluster and cloud: it keeps no
// state of the old one.
func (e *Env) Restart() {
	if e.stopListening != nil {
		e.stopListening()
	}
	e.woken = map[string]bool{}
	e.seenPods, e.seenNodes, e.seenClaims = map[types.UID]*corev1.Pod{}, map[string]*corev1.Node{}, map[string]*karpv1.NodeClaim{}
	e.seenBudgets, e.seenPools = map[types.UID]*policyv1.PodDisruptionBudget{}, map[string]*karpv1.NodePool{}
	e.Client = e.Faults.client(guarded(e.T, e.API, true))
	live := e.Faults.live(guarded(e.T, e.API, false))
	e.Provider = e.Faults.provider(memory.New(e.Cloud))
	e.Registry = prometheus.NewRegistry()
	e.Metrics = metrics.New(e.Registry)
	e.Mirror = state.NewMirror(func(pod string) { e.woken[pod] = true })
	log := logr.Discard()
	// Events go to the cluster directly: losing one is no fault worth a test.
	e.Events = events.New(live, log, e.Metrics.EventsDropped.Inc)
	ctx, stop := context.WithCancel(context.Background())
	e.stopListening = stop
	recorder := e.Events                    // the next process has another
	go func() { _ = recorder.Start(ctx) }() // always nil

	e.Pause = &control.Pause{Reader: live, Namespace: metav1.NamespaceDefault, Events: e.Events, Metrics: e.Metrics, Log: log}
	e.Pause.Read(ctx)
	keeper := catalog.New(e.Provider, e.Mirror, e.Metrics)
	keeper.Overlays = overlay.Source(e.Client)
	e.Overlays = &overlay.Reconciler{Client: e.Client, Catalog: keeper}
	buffers := buffer.NewKeeper(e.Client, e.Mirror)
	e.Buffers = &buffer.Reconciler{Client: e.Client, Live: live, Keeper: buffers}
	ledger := &registrationhealth.Ledger{}
	class := NodeClassGVK().GroupKind()
	e.Provisioner = &provision.Provisioner{Client: e.Client, Live: live, Mirror: e.Mirror, Catalog: keeper,
		Batches: provision.NewBatcher(0, 0), Events: e.Events, Metrics: e.Metrics, Log: log, Buffers: buffers, Guard: e.Guards.Creations}
	e.Lifecycle = &lifecycle.Reconciler{Client: e.Client, Live: live, Mirror: e.Mirror, Catalog: keeper, Provider: e.Provider,
		Events: e.Events, Metrics: e.Metrics, Log: log, NodeClassGVK: NodeClassGVK(), Health: ledger,
		Terminator: &termination.ClaimReconciler{Client: e.Client, Provider: e.Provider, Events: e.Events, Metrics: e.Metrics, Log: log, NodeClassKind: class}}
	e.Termination = &termination.NodeReconciler{Client: e.Client, Live: live, Provider: e.Provider,
		Evictor: termination.NewEvictor(e.Client, e.Events, e.Metrics, log), Events: e.Events, Metrics: e.Metrics, Log: log}
	e.Termination.Evictor.BeforeRemoval = e.Mirror.BeginEviction
	e.Termination.Evictor.Surges = &termination.Surges{Client: e.Client, Live: live, Events: e.Events, Log: log, Namespaces: []string{access.EveryNamespace}, Supersede: e.Mirror.Supersede}
	disrupts := disruption.Options{Client: e.Client, Live: live, Mirror: e.Mirror, Catalog: keeper, Events: e.Events, Metrics: e.Metrics,
		Log: log, Buffers: buffers, Settings: disrupt.Defaults(), Surges: e.Termination.Evictor.Surges, Pause: e.Pause, Guards: e.Guards}
	if e.Disrupt != nil {
		e.Disrupt(&disrupts)
	}
	e.Disruption = disruption.New(disrupts)
	e.Interruption = &interruption.Reconciler{Client: e.Client, Provider: e.Provider, Events: e.Events, Metrics: e.Metrics, Log: log, NodeClassKind: class}
	e.Pools = &nodepool.Reconciler{Client: e.Client, Mirror: e.Mirror, Metrics: e.Metrics, Log: log, NodeClassGVK: NodeClassGVK(), Health: ledger}
	e.Collector = &gc.Collector{Client: e.Client, Live: live, Provider: e.Provider, Events: e.Events, Metrics: e.Metrics, Log: log, NodeClassKind: class,
		Recognizer: memory.New(e.Cloud), Pause: e.Pause}
	e.Static = &static.Reconciler{Client: e.Client, Live: live, Mirror: e.Mirror, Catalog: keeper, Metrics: e.Metrics, Log: log, NodeClassKind: class, Pause: e.Pause, Guards: e.Guards}
	e.Mirror.AssumeSynced()
}

// Beside returns a second process over the same cluster and cloud: none of the two leads.
func (e *Env) Beside() *Env {
	e.T.Helper()
	other := &Env{T: e.T, API: e.API, stored: e.stored, Cloud: e.Cloud, Faults: &Faults{}, Pace: e.Pace, Disrupt: e.Disrupt}
	other.Restart()
	e.T.Cleanup(func() { other.stopListening() })
	return other
}

// Backup returns a function that restores the cluster, but not the cloud, to its present state, as a
// backup of etcd does. Watches show the difference.
func (e *Env) Backup() (restore func()) { return e.stored.backup() }

// Step runs every controller once over everything, then lets Pace pass. A
// crash that Faults planned kills karve in the middle and starts it again.
func (e *Env) Step() {
	e.T.Helper()
	e.round()
	if e.Faults.dead.Swap(false) {
		e.Restart()
	}
	time.Sleep(e.Pace)
}

// Steps is Step n times.
func (e *Env) Steps(n int) {
	e.T.Helper()
	for range n {
		e.Step()
	}
}

// Until steps until the condition holds, and fails the test after n steps.
func (e *Env) Until(n int, what string, holds func() bool) {
	e.T.Helper()
	for range n {
		if holds() {
			return
		}
		e.Step()
	}
	if !holds() {
		e.T.Fatalf("after %d steps, still not: %s", n, what)
	}
}

// round is one pass of all controllers, errors included: those are retried, as a
// work queue would.
func (e *Env) round() {
	ctx := context.Background()
	e.Pause.Read(ctx)
	e.Feed()
	for _, pool := range e.NodePools() {
		e.reconcile(e.Pools, client.ObjectKeyFromObject(&pool))
	}
	e.Feed()
	e.reconcile(e.Overlays, client.ObjectKey{})
	for _, b := range list(e, &autoscalingv1beta1.CapacityBufferList{}).Items {
		e.reconcile(e.Buffers, client.ObjectKeyFromObject(&b))
	}
	e.try(e.Provisioner.Provision(ctx))
	for _, pool := range e.NodePools() {
		e.reconcile(e.Static, client.ObjectKeyFromObject(&pool))
	}
	e.claims(e.Lifecycle)
	e.Feed()
	for _, node := range e.Nodes() {
		e.reconcile(e.Termination, client.ObjectKeyFromObject(&node))
	}
	e.claims(e.Interruption)
	e.Feed()
	if e.Disruption != nil {
		e.try(e.Disruption.Disrupt(ctx))
	}
}

func (e *Env) claims(r reconcile.Reconciler) {
	for _, claim := range e.Claims() {
		e.reconcile(r, client.ObjectKeyFromObject(&claim))
	}
}

func (e *Env) reconcile(r reconcile.Reconciler, key client.ObjectKey) {
	_, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
	e.try(err)
}

func (e *Env) try(err error) {
	if err != nil && !errors.Is(err, errPlanned) && !errors.Is(err, errDead) {
		e.T.Log("retried:", err)
	}
}

// Feed passes the changes in the cluster to the mirror, as watches would.
func (e *Env) Feed() {
	follow(e.Pods(), e.seenPods, func(p *corev1.Pod) types.UID { return p.UID },
		func(p *corev1.Pod) { e.Mirror.SetPod(p, false) }, e.Mirror.RemovePod)
	follow(e.Nodes(), e.seenNodes, func(n *corev1.Node) string { return n.Name }, e.Mirror.SetNode, e.Mirror.RemoveNode)
	if !e.ClaimWatchLost {
		follow(e.Claims(), e.seenClaims, func(c *karpv1.NodeClaim) string { return c.Name }, e.Mirror.SetClaim, e.Mirror.RemoveClaim)
	}
	follow(list(e, &policyv1.PodDisruptionBudgetList{}).Items, e.seenBudgets, func(b *policyv1.PodDisruptionBudget) types.UID { return b.UID },
		e.Mirror.SetPDB, e.Mirror.RemovePDB)
	follow(e.NodePools(), e.seenPools, func(p *karpv1.NodePool) string { return p.Name }, e.Mirror.SetPool, e.Mirror.RemovePool)
}

func follow[T any, K comparable, P interface {
	*T
	client.Object
}](now []T, seen map[K]*T, key func(*T) K, set, remove func(*T)) {
	current := map[K]bool{}
	for i := range now {
		x := &now[i]
		k := key(x)
		current[k] = true
		if was := seen[k]; was != nil && same(P(was), P(x)) {
			continue // a watch reports nothing
		}
		seen[k] = x
		set(x)
	}
	for k, x := range seen {
		if !current[k] {
			remove(x)
			delete(seen, k)
		}
	}
}

func same(a, b client.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// Create adds an object to the cluster.
func (e *Env) Create(o client.Object) {
	e.T.Helper()
	if err := e.API.Create(context.Background(), o); err != nil {
		e.T.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// Delete requests the deletion of an object.
func (e *Env) Delete(o client.Object) {
	e.T.Helper()
	if err := e.API.Delete(context.Background(), o); err != nil {
		e.T.Fatalf("deleting %T %s: %v", o, o.GetName(), err)
	}
}

// Pods lists all pods.
func (e *Env) Pods() []corev1.Pod { return list(e, &corev1.PodList{}).Items }

// Nodes lists all nodes.
func (e *Env) Nodes() []corev1.Node { return list(e, &corev1.NodeList{}).Items }

// Claims lists all NodeClaims.
func (e *Env) Claims() []karpv1.NodeClaim { return list(e, &karpv1.NodeClaimList{}).Items }

// Ready counts the NodeClaims that are initialized.
func (e *Env) Ready() int {
	n := 0
	for _, c := range e.Claims() {
		if kube.ConditionTrue(&c, karpv1.ConditionTypeInitialized) {
			n++
		}
	}
	return n
}

// NodePools lists all NodePools.
func (e *Env) NodePools() []karpv1.NodePool { return list(e, &karpv1.NodePoolList{}).Items }

// Get fills in the object of that name, in the namespace default where its kind has any.
func Get[T client.Object](e *Env, into T, name string) T {
	e.T.Helper()
	key := client.ObjectKey{Name: name}
	if namespaced, err := e.API.IsObjectNamespaced(into); err == nil && namespaced {
		key.Namespace = "default"
	}
	if err := e.API.Get(context.Background(), key, into); err != nil {
		e.T.Fatalf("reading %T %s: %v", into, name, err)
	}
	return into
}

// EventTexts lists "Reason: message" of all events that were published about an object.
func (e *Env) EventTexts(name string) []string {
	var texts []string
	for _, event := range list(e, &corev1.EventList{}).Items {
		if event.InvolvedObject.Name == name {
			texts = append(texts, event.Reason+": "+event.Message)
		}
	}
	return texts
}

// EventNames lists the names of all objects that events were published about.
func (e *Env) EventNames() []string {
	names := map[string]bool{}
	for _, event := range list(e, &corev1.EventList{}).Items {
		names[event.InvolvedObject.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func list[L client.ObjectList](e *Env, l L) L {
	e.T.Helper()
	if err := e.API.List(context.Background(), l); err != nil {
		e.T.Fatalf("listing %T: %v", l, err)
	}
	return l
}

// Join registers a node for every running instance without one, as its kubelet
// would: tainted, ready, with the labels its bootstrap carried.
func (e *Env) Join() {
	e.T.Helper()
	joined := map[string]bool{}
	for _, n := range e.Nodes() {
		joined[n.Spec.ProviderID] = true
	}
	p := memory.New(e.Cloud)
	instances, err := p.List(context.Background())
	if err != nil {
		e.T.Fatalf("listing instances: %v", err)
	}
	for _, m := range instances {
		if m.State == provider.Running && !joined[m.ProviderID] {
			e.Create(NodeFor(m))
		}
	}
}

// NodeFor is the node that the kubelet of an instance registers.
func NodeFor(m provider.Instance) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.NodeName, Labels: map[string]string{
			corev1.LabelHostname: m.NodeName, corev1.LabelInstanceTypeStable: m.Type, corev1.LabelTopologyZone: m.Zone,
		}},
		Spec: corev1.NodeSpec{ProviderID: m.ProviderID, Taints: []corev1.Taint{karpv1.UnregisteredNoExecuteTaint}},
		Status: corev1.NodeStatus{
			Capacity:    kube.ResourceList(m.Capacity),
			Allocatable: kube.ResourceList(m.Allocatable),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// Bind puts a pod on a node, as the scheduler would.
func (e *Env) Bind(pod, node string) {
	e.T.Helper()
	p := Get(e, &corev1.Pod{}, pod)
	p.Spec.NodeName = node
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	if err := e.API.Update(context.Background(), p); err != nil {
		e.T.Fatal(fmt.Errorf("binding %s: %w", pod, err))
	}
}

// Counter adds up all values of a counter or gauge, whatever their labels.
func (e *Env) Counter(name string) float64 {
	e.T.Helper()
	families, err := e.Registry.Gather()
	if err != nil {
		e.T.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// Control sets an annotation of the ConfigMap by which an operator controls karve; an empty value
// removes it.
func (e *Env) Control(annotation, value string) {
	e.T.Helper()
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kube.ControlConfigMap}}
	if err := e.API.Create(context.Background(), held); client.IgnoreAlreadyExists(err) != nil {
		e.T.Fatal(err)
	}
	Get(e, held, kube.ControlConfigMap)
	metav1.SetMetaDataAnnotation(&held.ObjectMeta, annotation, value)
	if value == "" {
		delete(held.Annotations, annotation)
	}
	if err := e.API.Update(context.Background(), held); err != nil {
		e.T.Fatal(err)
	}
}
