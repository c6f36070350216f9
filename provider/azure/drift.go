// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
)

// Reasons of drift, as Karpenter's provider for Azure spells them.
const (
	NodeClassDrift       = "NodeClassDrift"
	K8sVersionDrift      = "K8sVersionDrift"
	ImageDrift           = "ImageDrift"
	KubeletIdentityDrift = "KubeletIdentityDrift"
	// ClusterConfigDrift: AKS reports it for a machine that it created.
	ClusterConfigDrift = "ClusterConfigDrift"
	// SizeDrift is karve's own: Karpenter's provider does not check sizes.
	SizeDrift = "SizeDrift"
)

// AnnotationKubernetesVersion is the Kubernetes version that a claim's node was launched with.
const AnnotationKubernetesVersion = "karve.dev/kubernetes-version"

// A driftChecker compares nodes with what would be launched today.
type driftChecker struct {
	classes         classReader
	vms             *vmList
	backends        *backends
	ids             providerIDs
	owner           ownership
	region          regionName
	kubeletIdentity string // client ID
	changes         driftChanges
}

// check compares a node with the status of its AKSNodeClass; it sends no request to Azure.
// Status that is out of date for the class's spec causes no drift: the error is then a
// provider.NotReadyError, unless another check finds drift.
func (d *driftChecker) check(ctx context.Context, m provider.LaunchedNode) (provider.Drift, error) {
	class, err := d.classes.read(ctx, m.Class)
	if err != nil {
		return provider.Drift{}, err
	}
	var undetermined error
	for _, check := range []func(*v1beta1.AKSNodeClass, provider.LaunchedNode) (provider.Drift, error){
		classDrift, versionDrift, imageDrift, d.identityDrift, d.clusterDrift, d.sizeDrift,
	} {
		drift, err := check(class, m)
		if drift.Reason != "" {
			return drift, nil
		}
		undetermined = cmp.Or(undetermined, err)
	}
	return provider.Drift{}, undetermined
}

// classDrift compares the hash of the node class with the hash at launch. Hashes of different
// versions, or a missing one, are not compared.
func classDrift(class *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	now, then := class.Annotations[v1beta1.AnnotationHash], m.Annotations[v1beta1.AnnotationHash]
	if class.Annotations[v1beta1.AnnotationHashVersion] != m.Annotations[v1beta1.AnnotationHashVersion] || now == "" || then == "" || now == then {
		return provider.Drift{}, nil
	}
	return provider.Drift{Reason: NodeClassDrift, Detail: "AKSNodeClass " + class.Name + " was changed"}, nil
}

// versionDrift finds nodes launched for an older Kubernetes version than the node class has now.
// It compares the version requested at launch, since the image may contain another one; a
// replacement would have the same, and would drift again forever. Nodes without the annotation
// are compared by their kubelet version. A newer version is no drift.
func versionDrift(class *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	if err := checkCondition(class, v1beta1.ConditionTypeKubernetesVersionReady); err != nil {
		return provider.Drift{}, err
	}
	had, want := cmp.Or(m.Annotations[AnnotationKubernetesVersion], m.KubeletVersion), kubeversion.Of(class)
	if !kubeversion.Older(had, want) {
		return provider.Drift{}, nil
	}
	return provider.Drift{Reason: K8sVersionDrift, Detail: "made for Kubernetes " + strings.TrimPrefix(had, "v") + ", new VMs run " + want}, nil
}

// imageDrift finds nodes whose image has a newer version in the node class. A definition that
// the class lacks may be missing because of a partial answer, and a version that went back may
// replace a withdrawn one: neither is drift. When the class names its version, any other version
// is drift in either direction: that is how nodes are rolled back from a bad image. A node with
// a kept version (see AnnotationImagesKept) does not drift.
func imageDrift(class *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	if err := checkCondition(class, v1beta1.ConditionTypeImagesReady); err != nil {
		return provider.Drift{}, err
	}
	name, had := image.Parts(m.ImageID)
	kept := image.Tolerated(class)
	for _, imageID := range class.Status.Images {
		other, version := image.Parts(imageID.ID)
		if name == "" || !strings.EqualFold(name, other) {
			continue
		}
		pinned := class.Annotations[image.AnnotationVersion] == version
		if older := image.CompareVersions(had, image.OldestAllowed(kept, name, version)); older < 0 || pinned && image.CompareVersions(had, version) != 0 {
			return provider.Drift{Reason: ImageDrift, Detail: "made from version " + had + " of image " + name + ", new VMs start from " + version}, nil
		}
	}
	return provider.Drift{}, nil
}

// identityDrift finds nodes whose kubelet pulls images with another identity than the configured
// one.
func (d *driftChecker) identityDrift(_ *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	now, then := d.kubeletIdentity, m.NodeLabels[v1beta1.AKSLabelKubeletIdentityClientID]
	if now == "" || then == "" || now == then {
		return provider.Drift{}, nil
	}
	return provider.Drift{Reason: KubeletIdentityDrift, Detail: "kubelets use the identity " + now + ", this one uses " + then}, nil
}

// clusterDrift finds machines that AKS would recreate, by the last list, of any age: such drift
// lasts.
func (d *driftChecker) clusterDrift(_ *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	if vm := d.listed(m); vm != nil && vm.aksMachine != nil && vm.aksMachine.drift != "" {
		return provider.Drift{Reason: ClusterConfigDrift, Detail: vm.aksMachine.drift}, nil
	}
	return provider.Drift{}, nil
}

// sizeDrift finds nodes whose virtual machine was resized by another user, by the last list. The
// node's labels, its price and the counting for limits are wrong then.
func (d *driftChecker) sizeDrift(_ *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	vm := d.listed(m)
	if vm == nil || !d.owner.ours(vm) {
		return provider.Drift{}, nil
	}
	if has := d.region.refOf(vm).Type; has != "" && m.Type != "" && !strings.EqualFold(has, m.Type) {
		return provider.Drift{Reason: SizeDrift, Detail: "launched as " + m.Type + ", and was resized to " + has}, nil
	}
	return provider.Drift{}, nil
}

// listed returns the virtual machine in the last list, of any age; nil when it is missing.
func (d *driftChecker) listed(m provider.LaunchedNode) *virtualMachine {
	name, err := d.ids.vmOf(m.ProviderID)
	if err != nil {
		return nil // not launched yet
	}
	_, handle := d.backends.byVMName(name)
	return d.vms.Last().ByName[handle]
}

// checkCondition returns an error when the part of the class's status behind the condition is not
// up to date.
func checkCondition(class *v1beta1.AKSNodeClass, condition string) error {
	c := class.Condition(condition)
	if c.Status == metav1.ConditionTrue && c.ObservedGeneration == class.Generation {
		return nil
	}
	return &provider.NotReadyError{Class: class.Name, Reason: c.Reason, Detail: condition + " does not hold for the present spec"}
}

// repairPolicies are AKS's policies: a kubelet that is not ready, and the condition of the node's
// problem detector. The announced eviction of a spot node is not among them: the node keeps the
// time it has left.
func repairPolicies() []provider.RepairPolicy {
	return []provider.RepairPolicy{
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionFalse), Tolerate: 10 * time.Minute},
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionUnknown), Tolerate: 10 * time.Minute},
		{Condition: "kubernetes.azure.com/NodeHealthy", Status: string(corev1.ConditionFalse)},
	}
}
