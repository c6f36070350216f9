package azure

import (
	"maps"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
)

// Tags of our own, and those by which other tools know such machines.
const (
	tagCluster   = "karve.dev_cluster"
	tagClaim     = "karve.dev_claim"
	tagClaimUID  = "karve.dev_claim-uid"
	tagClass     = "karve.dev_class"
	tagAKSOwner  = "karpenter.azure.com_cluster"
	tagNodePool  = "karpenter.sh_nodepool"
	tagBilling   = "compute.aks.billing"
	billingLinux = "linux"
)

// tags are what every resource of a claim carries: the installation's, over them
// the class's, over them ours. Azure ignores case in tag keys and refuses "/".
func (p *Provider) tags(class *v1beta1.AKSNodeClass, claim provider.Claim) map[string]string {
	out := map[string]string{}
	add := func(tags map[string]string) {
		for key, value := range tags {
			key = strings.ReplaceAll(key, "/", "_")
			maps.DeleteFunc(out, func(k, _ string) bool { return strings.EqualFold(k, key) })
			out[key] = value
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

// ours reports whether this installation bought the machine.
func (p *Provider) ours(vm *armcompute.VirtualMachine) bool {
	return strings.EqualFold(tag(vm.Tags, tagCluster), p.opts.ClusterName) && tag(vm.Tags, tagClaimUID) != ""
}
