package azure

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/karve-dev/karve/provider"
)

// Machines that Karpenter's provider for Azure made before karve took the cluster
// over carry its tags and names: the machine, its interface and its disk are all
// called aks-<claim>. They name no UID, so a claim knows them by provider ID or name.

// namePrefix begins the names of machines, ours and theirs.
const namePrefix = "aks-"

// inherited reports whether a machine was made for this cluster by Karpenter's provider.
func (p *Provider) inherited(vm *machine) bool {
	return p.inheritedTags(vm.Tags) && (strings.HasPrefix(strings.ToLower(text(vm.Name)), namePrefix) || madeByAKS(vm))
}

// inheritedTags reports whether a resource was tagged by Karpenter's provider for this
// cluster, and by nobody else for karve.
func (p *Provider) inheritedTags(tags map[string]*string) bool {
	return strings.EqualFold(tag(tags, tagAKSOwner), p.opts.ClusterName) && tag(tags, tagNodePool) != "" &&
		tag(tags, tagCluster) == "" && tag(tags, tagClaimUID) == ""
}

// madeByAKS reports whether the machine belongs to AKS's machine API, which must be
// asked to delete it.
func madeByAKS(vm *machine) bool { return tag(vm.Tags, tagAKSMachine) != "" }

// claimOf is the name of the NodeClaim a machine was made for.
func claimOf(vm *machine) string {
	for _, key := range []string{tagClaim, tagAKSMachine} {
		if name := tag(vm.Tags, key); name != "" {
			return name
		}
	}
	return strings.TrimPrefix(strings.ToLower(text(vm.Name)), namePrefix)
}

// legacyName is what Karpenter's provider calls a claim's machine.
func legacyName(claim string) string { return namePrefix + strings.ToLower(claim) }

// legacy finds the machine that Karpenter's provider made for a claim. Any list will
// do: nothing makes such machines any more.
func (p *Provider) legacy(v view[*machine], claim provider.Claim) *machine {
	for _, name := range []string{legacyName(claim.Name), strings.ToLower(claim.Name)} {
		if vm := v.byName[name]; vm != nil && p.inherited(vm) && tag(vm.Tags, tagNodePool) == claim.Pool && claimOf(vm) == claim.Name {
			return vm
		}
	}
	return nil
}

// abandonLegacy gives back what Karpenter's provider made for a claim.
func (p *Provider) abandonLegacy(ctx context.Context, claim provider.Claim) error {
	v, err := p.machines.since(ctx, p.opts.Now().Add(-p.pace()))
	if err != nil {
		return fmt.Errorf("abandoning %s: %w", claim.Name, err)
	}
	if vm := p.legacy(v, claim); vm != nil {
		return p.endListed(ctx, vm)
	}
	return provider.ErrNotFound
}

// ourName is how machineName ends.
var ourName = regexp.MustCompile(`-[a-z2-7]{10}$`)
