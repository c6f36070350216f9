// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
)

// Tags of karve, and tags by which other tools recognize such virtual machines.
const (
	tagCluster = "karve.dev_cluster"
	// tagClusterUID distinguishes clusters of one name. Resources of an earlier karve lack it.
	tagClusterUID = "karve.dev_cluster-uid"
	tagClaim      = "karve.dev_claim"
	tagClaimUID   = "karve.dev_claim-uid"
	tagClass      = "karve.dev_class"
	// For Drift: the hash of the node class at launch and the requested Kubernetes version.
	tagClassHash = "karve.dev_class-hash"
	// tagHashVersion says how that hash is computed. Virtual machines without it have v3.
	tagHashVersion      = "karve.dev_class-hash-version"
	tagKubernetes       = "karve.dev_kubernetes-version"
	tagKarpenterCluster = "karpenter.azure.com_cluster"
	tagNodePool         = "karpenter.sh_nodepool"
	// tagAKSMachine is on machines that are created through AKS's machine API, by karve or by
	// Karpenter's provider.
	tagAKSMachine = "karpenter.azure.com_aksmachine_nodeclaim"
	tagBilling    = "compute.aks.billing"
	billingLinux  = "linux"
)

// An ownership determines by tags and names which resources belong to the cluster, and writes
// those tags.
type ownership struct {
	cluster    string
	clusterUID string            // empty when it is not known: clusters of one name are not distinguished
	additional map[string]string // tags that users want on every resource
}

// tags returns the tags of every resource of a claim: those of the options, overridden by the
// node class's, overridden by karve's own. Azure ignores case in tag keys and does not allow
// "/".
func (o ownership) tags(class *v1beta1.AKSNodeClass, claim provider.Claim) map[string]string {
	out := o.configuredTags(class)
	for key, value := range map[string]string{
		tagCluster:          o.cluster,
		tagClaim:            claim.Name,
		tagClaimUID:         claim.UID,
		tagClass:            claim.Class,
		tagKarpenterCluster: o.cluster,
		tagBilling:          billingLinux,
	} {
		setTag(out, key, value)
	}
	if claim.Pool != "" {
		setTag(out, tagNodePool, claim.Pool)
	}
	if o.clusterUID != "" {
		setTag(out, tagClusterUID, o.clusterUID)
	}
	return out
}

// configuredTags returns the tags that users configure. They may change during the life of a node.
func (o ownership) configuredTags(class *v1beta1.AKSNodeClass) map[string]string {
	out := map[string]string{}
	for _, tags := range []map[string]string{o.additional, class.Spec.Tags} {
		for key, value := range tags {
			if key = strings.ReplaceAll(key, "/", "_"); !reserved(key) {
				setTag(out, key, value)
			}
		}
	}
	return out
}

// reserved reports whether a tag identifies the virtual machine, which users cannot change.
func reserved(key string) bool {
	return slices.ContainsFunc([]string{
		tagCluster, tagClusterUID, tagClaim, tagClaimUID, tagClass, tagClassHash, tagHashVersion, tagKubernetes, tagKarpenterCluster, tagNodePool, tagAKSMachine, tagBilling,
	}, func(reserved string) bool { return strings.EqualFold(reserved, key) })
}

// vmTags returns the tags of the virtual machine itself, which has more: its tags are
// written in the same request that creates it.
func (o ownership) vmTags(class *v1beta1.AKSNodeClass, claim provider.Claim) map[string]string {
	out := o.tags(class, claim)
	setTag(out, tagClassHash, class.Hash())
	setTag(out, tagHashVersion, v1beta1.HashVersion)
	setTag(out, tagKubernetes, kubeversion.Of(class))
	return out
}

// setTag replaces a tag, ignoring the case of its key.
func setTag(tags map[string]string, key, value string) {
	maps.DeleteFunc(tags, func(k, _ string) bool { return strings.EqualFold(k, key) })
	tags[key] = value
}

// annotations returns the annotations for the claim of a virtual machine. One created by an
// earlier karve lacks these tags.
func annotations(vm *virtualMachine) map[string]string {
	out := map[string]string{}
	if hash := tag(vm.Tags, tagClassHash); hash != "" {
		out[v1beta1.AnnotationHash], out[v1beta1.AnnotationHashVersion] = hash, cmp.Or(tag(vm.Tags, tagHashVersion), "v3")
	}
	if version := tag(vm.Tags, tagKubernetes); version != "" {
		out[AnnotationKubernetesVersion] = version
	}
	if vm.aksMachine != nil && armtext.Of(vm.aksMachine.row.ID) != "" {
		out[v1beta1.AnnotationAKSMachineResourceID] = *vm.aksMachine.row.ID
	}
	return out
}

// tag reads a tag, ignoring the case of its key.
func tag(tags map[string]*string, key string) string {
	if v, ok := tags[key]; ok {
		return armtext.Of(v)
	}
	for k, v := range tags {
		if strings.EqualFold(k, key) {
			return armtext.Of(v)
		}
	}
	return ""
}

// ours reports whether the virtual machine belongs to this cluster: karve created it, or
// Karpenter's provider for Azure did before karve took over.
func (o ownership) ours(vm *virtualMachine) bool {
	return o.karvesTags(vm.Tags) || o.inherited(vm)
}

// karvesTags reports whether a resource carries karve's tags for this cluster, and not those of
// another one of its name.
func (o ownership) karvesTags(tags map[string]*string) bool {
	return strings.EqualFold(tag(tags, tagCluster), o.cluster) && tag(tags, tagClaimUID) != "" && o.sameUID(tags)
}

// sameUID reports whether the resource may belong to this cluster by the UID in its tags. An
// earlier karve wrote none.
func (o ownership) sameUID(tags map[string]*string) bool {
	uid := tag(tags, tagClusterUID)
	return uid == "" || o.clusterUID == "" || strings.EqualFold(uid, o.clusterUID)
}
