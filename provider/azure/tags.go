package azure

import (
	"maps"
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
	tagClassHash  = "karve.dev_class-hash"
	tagKubernetes = "karve.dev_kubernetes-version"
	tagAKSOwner   = "karpenter.azure.com_cluster"
	tagNodePool   = "karpenter.sh_nodepool"
	// tagAKSMachine is on machines that Karpenter's provider has AKS's own machine API make.
	tagAKSMachine = "karpenter.azure.com_aksmachine_nodeclaim"
	tagBilling    = "compute.aks.billing"
	billingLinux  = "linux"
)

// tags are what every resource of a claim carries: the installation's, over them
// the class's, over them ours. Azure ignores case in tag keys and refuses "/".
func (p *Provider) tags(class *v1beta1.AKSNodeClass, claim provider.Claim) map[string]string {
	out := map[string]string{}
	add := func(tags map[string]string) {
		for key, value := range tags {
			setTag(out, strings.ReplaceAll(key, "/", "_"), value)
		}
	}
	add(p.opts.AdditionalTags)
	add(class.Spec.Tags)
	add(map[string]string{
		tagCluster:  p.opts.ClusterName,
		tagClaim:    claim.Name,
		tagClaimUID: claim.UID,
		tagClass:    claim.Class,
		tagAKSOwner: p.opts.ClusterName,
		tagBilling:  billingLinux,
	})
	if claim.Pool != "" {
		add(map[string]string{tagNodePool: claim.Pool})
	}
	return out
}

// machineTags are what the machine itself carries besides: the only place that is
// written in the very request that makes it.
func (p *Provider) machineTags(class *v1beta1.AKSNodeClass, claim provider.Claim) map[string]string {
	out := p.tags(class, claim)
	setTag(out, tagClassHash, class.Hash())
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
		out[v1beta1.AnnotationHash], out[v1beta1.AnnotationHashVersion] = hash, v1beta1.HashVersion
	}
	if version := tag(vm.Tags, tagKubernetes); version != "" {
		out[AnnotationKubernetesVersion] = version
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
