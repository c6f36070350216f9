// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"regexp"
	"strings"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// Virtual machines that Karpenter's provider for Azure created before karve took the cluster
// over carry its tags and names: the virtual machine, its interface and its disk are all called
// aks-<claim>. Their tags hold no UID, so they are matched to a claim by provider ID or name.

// namePrefix is the prefix of names of virtual machines, karve's and Karpenter's.
const namePrefix = "aks-"

// inherited reports whether Karpenter's provider created a virtual machine for this cluster.
func (o ownership) inherited(vm *virtualMachine) bool {
	return o.inheritedTags(vm.Tags) && (strings.HasPrefix(strings.ToLower(armtext.Of(vm.Name)), namePrefix) || madeByAKS(vm))
}

// inheritedTags reports whether a resource carries the tags of Karpenter's provider for this
// cluster, and not karve's.
func (o ownership) inheritedTags(tags map[string]*string) bool {
	return strings.EqualFold(tag(tags, tagKarpenterCluster), o.cluster) && tag(tags, tagNodePool) != "" &&
		tag(tags, tagCluster) == "" && tag(tags, tagClaimUID) == "" && o.sameUID(tags)
}

// madeByAKS reports whether the virtual machine belongs to AKS's machine API, through which it
// must be deleted.
func madeByAKS(vm *virtualMachine) bool { return tag(vm.Tags, tagAKSMachine) != "" }

// claimOf returns the name of the NodeClaim of a virtual machine.
func claimOf(vm *virtualMachine) string {
	for _, key := range []string{tagClaim, tagAKSMachine} {
		if name := tag(vm.Tags, key); name != "" {
			return name
		}
	}
	return strings.TrimPrefix(strings.ToLower(armtext.Of(vm.Name)), namePrefix)
}

// inheritedName returns Karpenter's name for a claim's virtual machine.
func inheritedName(claim string) string { return namePrefix + strings.ToLower(claim) }

// inheritedVM finds the virtual machine that Karpenter's provider created for a claim. A list of
// any age will do: no new ones are created.
func (o ownership) inheritedVM(v armlist.View[*virtualMachine], claim provider.Claim) *virtualMachine {
	for _, name := range []string{inheritedName(claim.Name), strings.ToLower(claim.Name)} {
		if vm := v.ByName[name]; vm != nil && o.inherited(vm) && tag(vm.Tags, tagNodePool) == claim.Pool && claimOf(vm) == claim.Name {
			return vm
		}
	}
	return nil
}

// karveNameSuffix matches the suffix of vmNameFor.
var karveNameSuffix = regexp.MustCompile(`-[a-z2-7]{10}$`)
