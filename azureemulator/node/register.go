// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	storagev1client "k8s.io/client-go/kubernetes/typed/storage/v1"

	"github.com/karve-dev/karve/azureemulator"
)

// enroll gets the node its certificate, however long it takes; false means ctx
// ended first.
func (g *guest) enroll(ctx context.Context) (*tls.Certificate, bool) {
	if g.os.options.API != nil {
		return nil, true
	}
	var key *ecdsa.PrivateKey
	var identity *tls.Certificate
	ok := g.retry(ctx, "joining "+g.payload.Server, func(ctx context.Context) (err error) {
		if key == nil {
			if key, err = newKey(); err != nil {
				return err
			}
		}
		identity, err = g.certificate(ctx, key)
		if refused := (*refusedError)(nil); errors.As(err, &refused) {
			key = nil
		}
		return err
	})
	return identity, ok
}

// kubelet speaks for one node, as that node.
type kubelet struct {
	guest    *guest
	name     string
	http     *http.Client
	nodes    corev1client.NodeInterface
	csiNodes storagev1client.CSINodeInterface
}

func newKubelet(g *guest, identity *tls.Certificate) (*kubelet, error) {
	config, httpClient, err := g.connect(identity)
	if err != nil {
		return nil, err
	}
	client, err := corev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building the node's client: %w", err)
	}
	storage, err := storagev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building the node's storage client: %w", err)
	}
	return &kubelet{
		guest: g, name: nodeName(g.vm, g.payload.Kubelet), http: httpClient,
		nodes: client.Nodes(), csiNodes: storage.CSINodes(),
	}, nil
}

// diskGiB is the size of the VM's OS disk.
func (g *guest) diskGiB() int64 {
	if n := g.vm.Node; n != nil && n.OperatingSystem.OSDiskSizeGB > 0 {
		return n.OperatingSystem.OSDiskSizeGB
	}
	return g.os.options.OSDiskGiB
}

func (k *kubelet) close() { k.http.CloseIdleConnections() }

// register creates the Node, or takes over the one of that name. A request under
// way is finished even if the VM goes meanwhile: whether there is a Node to
// silence must be known.
func (k *kubelet) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	node := newNode(k.guest.vm, k.guest.payload, k.guest.diskGiB(), time.Now())
	_, err := k.nodes.Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return k.takeOver(ctx, node)
	}
	return err
}

// takeOver brings an existing Node up to date with what this kubelet sees. Spec
// stays: a node may not change its own taints, nor does a kubelet try.
func (k *kubelet) takeOver(ctx context.Context, fresh *corev1.Node) error {
	old, err := k.nodes.Get(ctx, k.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the existing node: %w", err)
	}
	updated := old.DeepCopy()
	metav1.SetMetaDataAnnotation(&updated.ObjectMeta, annotationKwok, annotationKwokValue)
	for key := range ownLabels(k.name, fresh.Status.NodeInfo.Architecture) {
		metav1.SetMetaDataLabel(&updated.ObjectMeta, key, fresh.Labels[key])
	}
	updated.Status.Capacity, updated.Status.Allocatable = fresh.Status.Capacity, fresh.Status.Allocatable
	updated.Status.Addresses, updated.Status.NodeInfo = fresh.Status.Addresses, fresh.Status.NodeInfo
	updated.Status.Conditions = mergeConditions(updated.Status.Conditions, fresh.Status.Conditions)
	patch, err := twoWay(old, updated)
	if err != nil {
		return err
	}
	if _, err := k.nodes.PatchStatus(ctx, k.name, patch); err != nil {
		return fmt.Errorf("updating the existing node: %w", err)
	}
	return nil
}

// mergeConditions replaces the conditions a kubelet owns and keeps the others,
// except a preemption: the VM that was to be taken back is not this one.
func mergeConditions(old, fresh []corev1.NodeCondition) []corev1.NodeCondition {
	merged := append([]corev1.NodeCondition(nil), fresh...)
	for _, o := range old {
		if o.Type != conditionPreemption && findCondition(fresh, o.Type) == nil {
			merged = append(merged, o)
		}
	}
	return merged
}

func findCondition(list []corev1.NodeCondition, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}

func twoWay(old, updated *corev1.Node) ([]byte, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, fmt.Errorf("encoding a node: %w", err)
	}
	after, err := json.Marshal(updated)
	if err != nil {
		return nil, fmt.Errorf("encoding a node: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Node{})
	if err != nil {
		return nil, fmt.Errorf("comparing nodes: %w", err)
	}
	return patch, nil
}

// conditionPreemption is what the node problem detector of AKS images reports a
// Preempt event as. Its message was seen on nodes of AKS (Azure/karpenter-provider-azure,
// pull request 1829); the condition also brings mere advice, in other words.
const conditionPreemption corev1.NodeConditionType = "PreemptionScheduled"

func (k *kubelet) reportPreemption(ctx context.Context, p azureemulator.Preemption) error {
	message := fmt.Sprintf("Preempt Scheduled: %s. For more information, see https://aka.ms/aks-spot-eviction. EventId: %s",
		p.NotBefore.UTC().Format(http.TimeFormat), p.EventID)
	c := condition(conditionPreemption, corev1.ConditionTrue, "SpotEvictionIncoming", message, time.Now())
	return k.patch(ctx, statusPatch{Conditions: []corev1.NodeCondition{c}}, nil)
}

// unplug ends the heartbeat and with it the pods' progress.
func (k *kubelet) unplug(ctx context.Context) error {
	return k.patch(ctx, statusPatch{}, map[string]*string{annotationKwok: nil})
}

// goSilent unplugs the node and shows it as unknown, in one write: in between,
// the heartbeat would make it ready again.
func (k *kubelet) goSilent(ctx context.Context) error {
	return k.patch(ctx, statusPatch{Conditions: silent(time.Now())}, map[string]*string{annotationKwok: nil})
}

type statusPatch struct {
	Conditions []corev1.NodeCondition `json:"conditions,omitempty"`
}

// patch changes conditions and annotations (nil removes one). A Node that is
// gone needs no change.
func (k *kubelet) patch(ctx context.Context, status statusPatch, annotations map[string]*string) error {
	change := map[string]any{"status": status}
	if len(annotations) > 0 {
		change["metadata"] = map[string]any{"annotations": annotations}
	}
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encoding a status: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = k.nodes.Patch(ctx, k.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
