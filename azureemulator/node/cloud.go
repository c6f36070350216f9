// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/karve-dev/karve/azureemulator"
)

// State is what the cloud says of a VM that exists.
type State string

const (
	// Running covers every VM that holds its cores, booting ones included.
	Running State = "Running"
	// Deallocated VMs exist but have given their cores back.
	Deallocated State = "Deallocated"
)

// VMs is the cloud as the controller asks it. Find gets a VM by its
// computer name, whatever the letter case; false means there is none. It is
// called from several goroutines.
type VMs interface {
	Find(computerName string) (azureemulator.VM, State, bool)
}

// MachinesFunc makes a function the cloud.
type MachinesFunc func(computerName string) (azureemulator.VM, State, bool)

// Find calls f.
func (f MachinesFunc) Find(computerName string) (azureemulator.VM, State, bool) {
	return f(computerName)
}

// VMsOf is an emulator as a cloud controller sees it.
func VMsOf(s *azureemulator.Server) VMs {
	return MachinesFunc(func(computerName string) (azureemulator.VM, State, bool) {
		m, power, found := s.VMs.Find(computerName)
		if power == "deallocated" {
			return m, Deallocated, found
		}
		return m, Running, found
	})
}

// CloudOptions say what a CloudController works with.
type CloudOptions struct {
	// Client may change and delete nodes. Required.
	Client kubernetes.Interface
	// VMs is the cloud. Required.
	VMs VMs
	// CheckEvery is how soon after a Node stopped being ready its VM is
	// looked up, and how often again until the Node is ready or gone. Zero means
	// 5 s, the real controller's period.
	CheckEvery time.Duration
	// Workers is how many nodes are dealt with at once. Zero means 8.
	Workers int
	// Log receives one line per node initialized or removed. Nil: nothing is logged.
	Log *slog.Logger
}

// CloudController does for Nodes what AKS's cloud-controller-manager does: it
// completes new ones from what the cloud knows and removes those whose VM
// is gone. Nodes that neither wait for a cloud controller nor carry an Azure
// provider id are none of its business.
type CloudController struct {
	options CloudOptions
	nodes   corev1listers.NodeLister
	queue   workqueue.TypedRateLimitingInterface[string]
}

// NewCloudController checks the options; Run does the work.
func NewCloudController(o CloudOptions) (*CloudController, error) {
	if o.Client == nil || o.VMs == nil {
		return nil, errors.New("a cloud controller needs a Client and VMs")
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = 5 * time.Second
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &CloudController{options: o}, nil
}

// Run watches nodes until ctx ends, and returns when every worker has stopped.
// It may be called once.
func (c *CloudController) Run(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(c.options.Client, 0)
	informer := factory.Core().V1().Nodes()
	c.nodes = informer.Lister()
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second))
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.observe,
		UpdateFunc: func(_, updated any) { c.observe(updated) },
	})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return context.Cause(ctx)
	}
	c.work(ctx)
	return nil
}

// work runs the workers until ctx ends.
func (c *CloudController) work(ctx context.Context) {
	var workers sync.WaitGroup
	for range c.options.Workers {
		workers.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
}

// observe queues a node that something may have to be done about. Healthy nodes,
// which are nearly all, cost nothing.
func (c *CloudController) observe(obj any) {
	n, ok := obj.(*corev1.Node)
	if !ok || n.DeletionTimestamp != nil {
		return
	}
	switch {
	case hasTaint(n, taintUninitialized), isReady(n) && hasTaint(n, taintShutdown):
		c.queue.Add(n.Name)
	case isAzure(n) && !isReady(n):
		c.queue.AddAfter(n.Name, c.options.CheckEvery)
	}
}

func (c *CloudController) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	again, err := c.reconcile(ctx, name)
	switch {
	case ctx.Err() != nil:
	case apierrors.IsConflict(err):
		c.queue.AddRateLimited(name) // a conflict: another writer was first, so try again
	case err != nil:
		c.options.Log.Error("cloud controller failed", "node", name, "error", err)
		c.queue.AddRateLimited(name)
	default:
		c.queue.Forget(name)
		if again {
			c.queue.AddAfter(name, c.options.CheckEvery)
		}
	}
	return true
}

// reconcile brings one Node in line with its VM. again asks for another look after a while: the
// cloud sends no notice when a VM is deleted.
func (c *CloudController) reconcile(ctx context.Context, name string) (again bool, err error) {
	n, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading node: %w", err)
	}
	uninitialized := hasTaint(n, taintUninitialized)
	if n.DeletionTimestamp != nil || !uninitialized && !isAzure(n) {
		return false, nil
	}
	if isReady(n) && !uninitialized {
		return false, c.started(ctx, n)
	}
	vm, state, exists := c.options.VMs.Find(name)
	switch {
	case !exists && isLost(n, uninitialized):
		return false, c.remove(ctx, n)
	case !exists:
		return true, nil
	case uninitialized:
		return !isReady(n), c.initialize(ctx, n, vm)
	case state == Deallocated:
		return true, c.stopped(ctx, n)
	}
	return true, nil
}

// isLost reports whether a Node without a VM may be removed: it is not ready, and if it was never
// initialized, its kubelet has stopped reporting. A fresh
// Node that the cloud does not know yet is given time.
func isLost(n *corev1.Node, uninitialized bool) bool {
	ready := findCondition(n.Status.Conditions, corev1.NodeReady)
	if uninitialized {
		return ready != nil && ready.Status == corev1.ConditionUnknown
	}
	return ready == nil || ready.Status != corev1.ConditionTrue
}

// initialize completes a new Node: addresses, provider id, where it is and what
// it is; then it lets pods on.
func (c *CloudController) initialize(ctx context.Context, n *corev1.Node, m azureemulator.VM) error {
	updated := n.DeepCopy()
	updated.Status.Addresses = addresses(m.PrivateIP, n.Name)
	written, err := c.write(ctx, n, updated, "status")
	if err != nil {
		return fmt.Errorf("setting the addresses of node %s: %w", n.Name, err)
	}
	updated = written.DeepCopy()
	for key, value := range cloudLabels(m) {
		metav1.SetMetaDataLabel(&updated.ObjectMeta, key, value)
	}
	if updated.Spec.ProviderID == "" {
		updated.Spec.ProviderID = providerID(m)
	}
	updated.Spec.Taints = without(updated.Spec.Taints, taintUninitialized)
	if _, err := c.write(ctx, written, updated); err != nil {
		return fmt.Errorf("initializing node %s: %w", n.Name, err)
	}
	c.options.Log.Info("node initialized", "node", n.Name)
	return nil
}

// cloudLabels are those the cloud controller sets, in their stable and their
// deprecated spelling.
func cloudLabels(m azureemulator.VM) map[string]string {
	region, zone := strings.ToLower(m.Location), zoneLabel(m)
	if zone == "" {
		zone = "0"
	}
	return map[string]string{
		corev1.LabelInstanceTypeStable:      m.Size.Name,
		corev1.LabelInstanceType:            m.Size.Name,
		corev1.LabelTopologyRegion:          region,
		corev1.LabelFailureDomainBetaRegion: region,
		corev1.LabelTopologyZone:            zone,
		corev1.LabelFailureDomainBetaZone:   zone,
	}
}

// azurePrefix begins the provider id of every Azure node.
const azurePrefix = "azure://"

func providerID(m azureemulator.VM) string {
	return azurePrefix + "/subscriptions/" + strings.ToLower(m.SubscriptionID) + "/resourceGroups/" + strings.ToLower(m.ResourceGroup) +
		"/providers/Microsoft.Compute/virtualMachines/" + m.Name
}

func (c *CloudController) remove(ctx context.Context, n *corev1.Node) error {
	err := c.options.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{
		// A new Node of the same name belongs to another VM.
		Preconditions: metav1.NewUIDPreconditions(string(n.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing node %s, whose VM is gone: %w", n.Name, err)
	}
	c.options.Log.Info("node removed, its VM is gone", "node", n.Name)
	return nil
}

// stopped marks the Node of a deallocated VM, so that volumes may be
// detached and pods replaced without waiting for it.
func (c *CloudController) stopped(ctx context.Context, n *corev1.Node) error {
	if hasTaint(n, taintShutdown) {
		return nil
	}
	updated := n.DeepCopy()
	updated.Spec.Taints = append(updated.Spec.Taints, corev1.Taint{Key: taintShutdown, Effect: corev1.TaintEffectNoSchedule})
	if _, err := c.write(ctx, n, updated); err != nil {
		return fmt.Errorf("marking node %s as shut down: %w", n.Name, err)
	}
	return nil
}

// started takes the mark off a Node that has come back.
func (c *CloudController) started(ctx context.Context, n *corev1.Node) error {
	if !hasTaint(n, taintShutdown) {
		return nil
	}
	updated := n.DeepCopy()
	updated.Spec.Taints = without(updated.Spec.Taints, taintShutdown)
	if _, err := c.write(ctx, n, updated); err != nil {
		return fmt.Errorf("marking node %s as running: %w", n.Name, err)
	}
	return nil
}

// write sends the difference between two versions of a Node. Taints are one
// value to the API, so the patch insists on the version it was made from: it
// must not undo what another controller did to them.
func (c *CloudController) write(ctx context.Context, old, updated *corev1.Node, subresources ...string) (*corev1.Node, error) {
	patch, err := twoWay(old, updated)
	if err != nil {
		return nil, err
	}
	if string(patch) == "{}" {
		return old, nil
	}
	if patch, err = pinVersion(patch, old.ResourceVersion); err != nil {
		return nil, err
	}
	return c.options.Client.CoreV1().Nodes().Patch(ctx, old.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, subresources...)
}

func pinVersion(patch []byte, version string) ([]byte, error) {
	var change map[string]any
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	metadata, ok := change["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		change["metadata"] = metadata
	}
	metadata["resourceVersion"] = version
	pinned, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("writing a patch: %w", err)
	}
	return pinned, nil
}

func hasTaint(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func without(taints []corev1.Taint, key string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == key })
}

func isReady(n *corev1.Node) bool {
	ready := findCondition(n.Status.Conditions, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

func isAzure(n *corev1.Node) bool { return strings.HasPrefix(n.Spec.ProviderID, azurePrefix) }
