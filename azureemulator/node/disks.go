// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karve-dev/karve/azureemulator"
)

const (
	// diskDriver is the Azure Disk CSI driver, which AKS runs on every node.
	diskDriver = "disk.csi.azure.com"
	// labelDiskZone is where the VM's disks must lie; empty outside zones.
	labelDiskZone = "topology.disk.csi.azure.com/zone"
	// annotationCSI tells under which id each driver knows the VM.
	annotationCSI = "csi.volume.kubernetes.io/nodeid"
)

// startDisks does what the kubelet does when the node's disk driver reports to it:
// it labels the Node with the driver's zone, and then says in the CSINode how many
// disks can be attached.
func (k *kubelet) startDisks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      map[string]string{labelDiskZone: zoneLabel(k.guest.vm)},
		"annotations": map[string]string{annotationCSI: fmt.Sprintf("{%q:%q}", diskDriver, k.name)},
	}})
	if err != nil {
		return fmt.Errorf("encoding the disk driver's label: %w", err)
	}
	node, err := k.nodes.Patch(ctx, k.name, types.StrategicMergePatchType, change, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil // the Node was deleted: there is nothing to report on
	}
	if err != nil {
		return fmt.Errorf("labelling the node: %w", err)
	}
	return k.writeCSINode(ctx, newCSINode(node, k.guest.vm))
}

// writeCSINode creates the CSINode. One of a Node before this, of the same name, is
// about to be collected: until then this fails and is tried again.
func (k *kubelet) writeCSINode(ctx context.Context, fresh *storagev1.CSINode) error {
	_, err := k.csiNodes.Create(ctx, fresh, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := k.csiNodes.Get(ctx, fresh.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the existing CSINode: %w", err)
	}
	if len(old.OwnerReferences) == 1 && old.OwnerReferences[0].UID == fresh.OwnerReferences[0].UID {
		return nil // of the boot before this one
	}
	return fmt.Errorf("CSINode %s belongs to an earlier node", fresh.Name)
}

// newCSINode describes the driver on a node of a VM. It goes with the Node.
func newCSINode(n *corev1.Node, m azureemulator.VM) *storagev1.CSINode {
	limit := int32(m.Size.MaxDataDisks)
	keys := []string{labelDiskZone}
	if m.Zone != "" {
		keys = append(keys, corev1.LabelTopologyZone)
	}
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:            n.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: diskDriver, NodeID: n.Name, TopologyKeys: keys,
			Allocatable: &storagev1.VolumeNodeResources{Count: &limit},
		}}},
	}
}

// zoneLabel is the VM's zone as the disk driver spells it.
func zoneLabel(m azureemulator.VM) string {
	if m.Zone == "" {
		return ""
	}
	return strings.ToLower(m.Location) + "-" + m.Zone
}
