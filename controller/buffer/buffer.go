// SPDX-License-Identifier: Apache-2.0

// Package buffer keeps capacity free for CapacityBuffers: each asks for a number of
// chunks of capacity, which take part in decisions as virtual pods. No pod is created for them.
//
// It creates no pods and makes no decisions. A nil Keeper means that there are no buffers.
package buffer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/karve-dev/karve/controller/write"
	"github.com/karve-dev/karve/engine/cluster"
	"github.com/karve-dev/karve/engine/schedule"
	"github.com/karve-dev/karve/kube"
	"github.com/karve-dev/karve/kube/state"
)

// Keeper knows the virtual pods of all buffers and where the last decision put them.
type Keeper struct {
	client client.Client
	mirror *state.Mirror

	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	owners  map[string]types.NamespacedName // virtual pod's UID → buffer
	held    map[string]bool                 // nodes with capacity for a buffer, by key
	decided bool                            // a decision was taken since the process began
}

// entry is one buffer's part of the cluster.Snapshot.
type entry struct {
	template corev1.PodTemplateSpec
	uid      types.UID
	pods     []cluster.Pod
}

// NewKeeper returns a Keeper that knows no buffers yet.
func NewKeeper(c client.Client, m *state.Mirror) *Keeper {
	return &Keeper{client: c, mirror: m, entries: map[types.NamespacedName]*entry{}, owners: map[string]types.NamespacedName{}, held: map[string]bool{}}
}

// set makes the buffer ask for n chunks of the template's shape.
func (k *Keeper) set(b *autoscalingv1beta1.CapacityBuffer, t *corev1.PodTemplateSpec, n int) {
	name := client.ObjectKeyFromObject(b)
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.entries[name]
	if old != nil && old.uid == b.UID && len(old.pods) == n && reflect.DeepEqual(old.template, *t) {
		return
	}
	gone := k.forget(name)
	e := &entry{template: *t, uid: b.UID, pods: kube.VirtualPods(b, t, n)}
	k.entries[name] = e
	for _, p := range e.pods {
		k.owners[p.UID] = name
	}
	k.mirror.SetVirtualPods(gone, e.pods)
}

func (k *Keeper) drop(name types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if gone := k.forget(name); len(gone) > 0 {
		k.mirror.SetVirtualPods(gone, nil)
	}
}

func (k *Keeper) forget(name types.NamespacedName) (gone []string) {
	if e := k.entries[name]; e != nil {
		for _, p := range e.pods {
			gone = append(gone, p.UID)
			delete(k.owners, p.UID)
		}
	}
	delete(k.entries, name)
	return gone
}

// Real is the pods without the virtual ones.
func (k *Keeper) Real(pods []cluster.PodRef) []cluster.PodRef {
	if k == nil {
		return pods
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.owners) == 0 {
		return pods
	}
	var real []cluster.PodRef
	for _, p := range pods {
		if _, virtual := k.owners[p.UID]; !virtual {
			real = append(real, p)
		}
	}
	return real
}

// Decided records which nodes have capacity for buffers after a decision.
func (k *Keeper) Decided(nominations []schedule.Nomination) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.decided = true
	clear(k.held)
	for _, n := range nominations {
		k.hold(n.Node, n.Pods)
	}
}

// Launched records that a node is launched for pods, which may include those of buffers.
func (k *Keeper) Launched(node string, pods []cluster.PodRef) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold(node, pods)
}

func (k *Keeper) hold(node string, pods []cluster.PodRef) {
	for _, p := range pods {
		if _, virtual := k.owners[p.UID]; virtual {
			k.held[node] = true
			return
		}
	}
}

// Holds reports whether the node has capacity that a buffer asks for. Until the first
// decision that may be any node.
func (k *Keeper) Holds(node string) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held[node] || !k.decided
}

// Report updates the status of every buffer: whether existing nodes have its capacity.
func (k *Keeper) Report(ctx context.Context, plan schedule.Plan) error {
	if k == nil {
		return nil
	}
	list := &autoscalingv1beta1.CapacityBufferList{}
	if err := k.client.List(ctx, list); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("listing capacity buffers: %w", err)
	}
	fits := k.fits(plan)
	var errs []error
	for i := range list.Items {
		b := &list.Items[i]
		if active(b) {
			errs = append(errs, k.report(ctx, b, fits[client.ObjectKeyFromObject(b)]))
		}
	}
	return errors.Join(errs...)
}

// fits counts the chunks of each buffer that nodes have capacity for.
func (k *Keeper) fits(plan schedule.Plan) map[types.NamespacedName]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[types.NamespacedName]int{}
	for _, n := range plan.Nominations {
		for _, p := range n.Pods {
			if name, virtual := k.owners[p.UID]; virtual {
				out[name]++
			}
		}
	}
	return out
}

func (k *Keeper) report(ctx context.Context, b *autoscalingv1beta1.CapacityBuffer, fit int) error {
	stored := b.DeepCopy()
	describe(b, fit)
	return write.IgnoreConflict(write.Status(ctx, k.client, b, stored)) // the next decision reports again
}

func describe(b *autoscalingv1beta1.CapacityBuffer, fit int) {
	const condition = autoscalingv1beta1.ProvisioningCondition
	wanted := int32(0)
	if b.Status.Replicas != nil {
		wanted = *b.Status.Replicas
	}
	switch {
	case !meta.IsStatusConditionTrue(b.Status.Conditions, autoscalingv1beta1.ReadyForProvisioningCondition):
		b.SetCondition(condition, metav1.ConditionFalse, "NotReadyForProvisioning", "the buffer is not ready: see ReadyForProvisioning")
	case wanted == 0:
		b.SetCondition(condition, metav1.ConditionFalse, "BufferEmpty", "the buffer asks for no room")
	case fit >= int(wanted):
		b.SetCondition(condition, metav1.ConditionTrue, "FitsExistingCapacity", "nodes have room for the whole buffer")
	default:
		b.SetCondition(condition, metav1.ConditionFalse, "RequiresNewCapacity", "nodes do not have room for the whole buffer yet")
	}
}
