package azure

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	versionutil "k8s.io/apimachinery/pkg/util/version"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
)

// Reasons of drift, as Karpenter's provider for Azure spells them.
const (
	NodeClassDrift       = "NodeClassDrift"
	K8sVersionDrift      = "K8sVersionDrift"
	ImageDrift           = "ImageDrift"
	KubeletIdentityDrift = "KubeletIdentityDrift"
	// ClusterConfigDrift: AKS says so of a machine that it made.
	ClusterConfigDrift = "ClusterConfigDrift"
	// SizeDrift is karve's own: Karpenter's provider does not look.
	SizeDrift = "SizeDrift"
)

// AnnotationKubernetesVersion is the version of Kubernetes that a claim's machine
// was asked to run.
const AnnotationKubernetesVersion = "karve.dev/kubernetes-version"

// Drift compares a machine with its AKSNodeClass as its status has it; it asks
// Azure nothing. What the class does not know for its present spec makes no drift:
// the error is then a provider.NotReadyError, unless another difference is certain.
func (p *Provider) Drift(ctx context.Context, m provider.LaunchedNode) (provider.Drift, error) {
	class, err := p.class(ctx, m.Class)
	if err != nil {
		return provider.Drift{}, err
	}
	var open error
	for _, check := range []func(*v1beta1.AKSNodeClass, provider.LaunchedNode) (provider.Drift, error){
		classDrift, versionDrift, imageDrift, p.identityDrift, p.clusterDrift, p.sizeDrift,
	} {
		drift, err := check(class, m)
		if drift.Reason != "" {
			return drift, nil
		}
		open = cmp.Or(open, err)
	}
	return provider.Drift{}, open
}

// classDrift compares the hash of the class with the one the machine was made
// under. Hashes of different versions, and one that is missing, say nothing.
func classDrift(class *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	now, then := class.Annotations[v1beta1.AnnotationHash], m.Annotations[v1beta1.AnnotationHash]
	if class.Annotations[v1beta1.AnnotationHashVersion] != m.Annotations[v1beta1.AnnotationHashVersion] || now == "" || then == "" || now == then {
		return provider.Drift{}, nil
	}
	return provider.Drift{Reason: NodeClassDrift, Detail: "AKSNodeClass " + class.Name + " was changed"}, nil
}

// versionDrift: machines made for an older Kubernetes than the class has now. What
// counts is what the machine was asked to run, since images may bring something
// else; a replacement would bring the same, and so on for ever. Machines that do not
// say are taken by their kubelet. One that is newer has not drifted.
func versionDrift(class *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	if err := settled(class, v1beta1.ConditionTypeKubernetesVersionReady); err != nil {
		return provider.Drift{}, err
	}
	had, want := cmp.Or(m.Annotations[AnnotationKubernetesVersion], m.KubeletVersion), kubernetesVersion(class)
	if !olderVersion(had, want) {
		return provider.Drift{}, nil
	}
	return provider.Drift{Reason: K8sVersionDrift, Detail: "made for Kubernetes " + strings.TrimPrefix(had, "v") + ", new machines run " + want}, nil
}

// olderVersion is false for what cannot be read.
func olderVersion(had, want string) bool {
	a, errA := versionutil.ParseGeneric(had)
	b, errB := versionutil.ParseGeneric(want)
	return errA == nil && errB == nil && a.LessThan(b)
}

// imageDrift: the class has a newer version of the image that the machine was made
// from. A definition that the class lacks may have been lost in a partial answer, and
// a version that went back may be one that was withdrawn: neither is drift. Where the
// class names its version, to have another is drift in either direction: that is how
// nodes are taken back from a bad image. A version that new machines have for want of the one
// that the class was to keep makes nobody drift who has that one.
func imageDrift(class *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	if err := settled(class, v1beta1.ConditionTypeImagesReady); err != nil {
		return provider.Drift{}, err
	}
	name, had := imageNamed(m.ImageID)
	kept := ImagesKept(class)
	for _, image := range class.Status.Images {
		other, version := imageNamed(image.ID)
		if name == "" || !strings.EqualFold(name, other) {
			continue
		}
		named := class.Annotations[AnnotationImageVersion] == version
		if older := compareVersions(had, owed(kept, name, version)); older < 0 || named && compareVersions(had, version) != 0 {
			return provider.Drift{Reason: ImageDrift, Detail: "made from version " + had + " of image " + name + ", new machines from " + version}, nil
		}
	}
	return provider.Drift{}, nil
}

// compareVersions goes number by number; what is not numbers compares to nothing.
func compareVersions(a, b string) int {
	na, nb := numbers(a), numbers(b)
	if na == nil || nb == nil {
		return 0
	}
	return slices.Compare(na, nb)
}

func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// identityDrift: nodes that pull images as somebody else than kubelets do now.
func (p *Provider) identityDrift(_ *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	now, then := p.opts.KubeletIdentityClientID, m.NodeLabels[v1beta1.AKSLabelKubeletIdentityClientID]
	if now == "" || then == "" || now == then {
		return provider.Drift{}, nil
	}
	return provider.Drift{Reason: KubeletIdentityDrift, Detail: "kubelets use the identity " + now + ", this one uses " + then}, nil
}

// clusterDrift: AKS would make its machine anew, by the last list of machines. That is of
// whatever age: such drift lasts.
func (p *Provider) clusterDrift(_ *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	if vm := p.listed(m); vm != nil && vm.said != nil && vm.said.drift != "" {
		return provider.Drift{Reason: ClusterConfigDrift, Detail: vm.said.drift}, nil
	}
	return provider.Drift{}, nil
}

// sizeDrift: somebody gave the machine another size than was bought, by the last list of
// machines. What its node says of its size and price, and what limits count, is wrong then.
func (p *Provider) sizeDrift(_ *v1beta1.AKSNodeClass, m provider.LaunchedNode) (provider.Drift, error) {
	vm := p.listed(m)
	if vm == nil || !p.ours(vm) {
		return provider.Drift{}, nil
	}
	if has := p.choiceOf(vm).Type; has != "" && m.Type != "" && !strings.EqualFold(has, m.Type) {
		return provider.Drift{Reason: SizeDrift, Detail: "bought as " + m.Type + ", and somebody made it a " + has}, nil
	}
	return provider.Drift{}, nil
}

// listed is the machine in the last list, of whatever age; nil when it is not there.
func (p *Provider) listed(m provider.LaunchedNode) *machine {
	name, err := p.machineOf(m.ProviderID)
	if err != nil {
		return nil // there is no machine yet
	}
	_, handle := p.backendOf(name)
	return p.machines.current().byName[handle]
}

// settled reports why a part of the class's status must not be relied on.
func settled(class *v1beta1.AKSNodeClass, condition string) error {
	c := class.Condition(condition)
	if c.Status == metav1.ConditionTrue && c.ObservedGeneration == class.Generation {
		return nil
	}
	return &provider.NotReadyError{Class: class.Name, Reason: c.Reason, Detail: condition + " does not hold for the present spec"}
}

// RepairPolicies are those of AKS: a kubelet that does not work, and what the
// node's own problem detector finds. A spot machine that is announced to be taken
// back is not among them: it is left with the time it has.
func (p *Provider) RepairPolicies() []provider.RepairPolicy {
	return []provider.RepairPolicy{
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionFalse), Tolerate: 10 * time.Minute},
		{Condition: string(corev1.NodeReady), Status: string(corev1.ConditionUnknown), Tolerate: 10 * time.Minute},
		{Condition: "kubernetes.azure.com/NodeHealthy", Status: string(corev1.ConditionFalse)},
	}
}
