package azure

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
)

// Tags of our own, and those by which other tools know such machines.
const (
	tagCluster  = "karve.dev_cluster"
	tagClaim    = "karve.dev_claim"
	tagClaimUID = "karve.dev_claim-uid"
	tagClass    = "karve.dev_class"
	// How the machine was made, for Drift: the hash of its class and the version of
	// Kubernetes it was asked to run.
	tagClassHash = "karve.dev_class-hash"
	// tagHashVersion says how that hash is computed. Machines without it are of when v3 was.
	tagHashVersion = "karve.dev_class-hash-version"
	tagKubernetes  = "karve.dev_kubernetes-version"
	tagAKSOwner    = "karpenter.azure.com_cluster"
	tagNodePool    = "karpenter.sh_nodepool"
	// tagAKSMachine is on machines that Karpenter's provider has AKS's own machine API make.
	tagAKSMachine = "karpenter.azure.com_aksmachine_nodeclaim"
	tagBilling    = "compute.aks.billing"
	billingLinux  = "linux"
)

// tags are what every resource of a claim carries: the installation's, over them
// the class's, over them ours. Azure ignores case in tag keys and refuses "/".
func (p *Provider) tags(class *v1beta1.AKSNodeClass, claim provider.Claim) map[string]string {
	out := p.wishedTags(class)
	for key, value := range map[string]string{
		tagCluster:  p.opts.ClusterName,
		tagClaim:    claim.Name,
		tagClaimUID: claim.UID,
		tagClass:    claim.Class,
		tagAKSOwner: p.opts.ClusterName,
		tagBilling:  billingLinux,
	} {
		setTag(out, key, value)
	}
	if claim.Pool != "" {
		setTag(out, tagNodePool, claim.Pool)
	}
	return out
}

// wishedTags are those that users ask for. They may change while machines live.
func (p *Provider) wishedTags(class *v1beta1.AKSNodeClass) map[string]string {
	out := map[string]string{}
	for _, tags := range []map[string]string{p.opts.AdditionalTags, class.Spec.Tags} {
		for key, value := range tags {
			if key = strings.ReplaceAll(key, "/", "_"); !reserved(key) {
				setTag(out, key, value)
			}
		}
	}
	return out
}

// reserved reports whether a tag says what a machine is, which users cannot change.
func reserved(key string) bool {
	return slices.ContainsFunc([]string{
		tagCluster, tagClaim, tagClaimUID, tagClass, tagClassHash, tagHashVersion, tagKubernetes, tagAKSOwner, tagNodePool, tagAKSMachine, tagBilling,
	}, func(ours string) bool { return strings.EqualFold(ours, key) })
}

// machineTags are what the machine itself carries besides: the only place that is
// written in the very request that makes it.
func (p *Provider) machineTags(class *v1beta1.AKSNodeClass, claim provider.Claim) map[string]string {
	out := p.tags(class, claim)
	setTag(out, tagClassHash, class.Hash())
	setTag(out, tagHashVersion, v1beta1.HashVersion)
	setTag(out, tagKubernetes, kubernetesVersion(class))
	return out
}

// setTag replaces a tag whatever the case of its key.
func setTag(tags map[string]string, key, value string) {
	maps.DeleteFunc(tags, func(k, _ string) bool { return strings.EqualFold(k, key) })
	tags[key] = value
}

// annotations are what a machine's claim shall remember of how it was made. A
// machine of an earlier karve says nothing of it.
func annotations(vm *machine) map[string]string {
	out := map[string]string{}
	if hash := tag(vm.Tags, tagClassHash); hash != "" {
		out[v1beta1.AnnotationHash], out[v1beta1.AnnotationHashVersion] = hash, cmp.Or(tag(vm.Tags, tagHashVersion), "v3")
	}
	if version := tag(vm.Tags, tagKubernetes); version != "" {
		out[AnnotationKubernetesVersion] = version
	}
	if vm.said != nil && text(vm.said.row.ID) != "" {
		out[v1beta1.AnnotationAKSMachineResourceID] = *vm.said.row.ID
	}
	return out
}

// tag reads a tag whatever the case of its key.
func tag(tags map[string]*string, key string) string {
	if v, ok := tags[key]; ok {
		return text(v)
	}
	for k, v := range tags {
		if strings.EqualFold(k, key) {
			return text(v)
		}
	}
	return ""
}

// ours reports whether the machine is this cluster's to keep or to end: karve bought
// it, or Karpenter's provider for Azure did before karve took over.
func (p *Provider) ours(vm *machine) bool {
	return strings.EqualFold(tag(vm.Tags, tagCluster), p.opts.ClusterName) && tag(vm.Tags, tagClaimUID) != "" || p.inherited(vm)
}
