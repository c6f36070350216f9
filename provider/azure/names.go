// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"

	"github.com/karve-dev/karve/provider"
)

// maxVMName is below the 64 characters that Azure allows for a Linux computer name, and below the
// 63 of a DNS label.
const maxVMName = 60

// vmNameFor returns the name of a claim's virtual machine and node; the names of its network
// interface and disk begin with it. It depends on the claim's UID, so that a restarted controller
// finds what the previous one created; the claim's name in it is only for readers.
func vmNameFor(claim, uid string) string {
	hash := hashOf(uid)
	room := maxVMName - len(namePrefix) - len("-") - len(hash)
	return namePrefix + dnsSafe(claim, room) + "-" + hash
}

// hashOf distinguishes claims of one name.
func hashOf(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return lowerBase32.EncodeToString(sum[:10])[:10]
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567")

// dnsSafe lower-cases s, replaces characters that a DNS label cannot hold and cuts it to room.
func dnsSafe(s string, room int) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	safe = strings.Trim(safe[:min(len(safe), room)], "-")
	if safe == "" {
		return "claim"
	}
	return safe
}

// providerIDs converts between names of virtual machines and provider IDs of nodes.
type providerIDs struct{ prefix, subscription, group string }

// newProviderIDs spells IDs as Azure's cloud provider does, which lower-cases the subscription and
// the resource group.
func newProviderIDs(subscription, group string) providerIDs {
	prefix := fmt.Sprintf("azure:///subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/virtualMachines/", subscription, strings.ToLower(group))
	return providerIDs{prefix: prefix, subscription: subscription, group: group}
}

// ofVM returns the provider ID of a virtual machine.
func (p providerIDs) ofVM(vm string) string { return p.prefix + vm }

// recognizes reports whether a provider ID names any virtual machine of Azure, of this cluster or
// not.
func (p providerIDs) recognizes(id string) bool {
	_, err := p.vmOf(id)
	return !errors.Is(err, provider.ErrForeign)
}

// vmOf returns the name of the virtual machine in a provider ID. One outside the node
// resource group is an error other than ErrForeign: it may exist, but karve must not touch it.
func (p providerIDs) vmOf(id string) (string, error) {
	if n := len(p.prefix); len(id) > n && strings.EqualFold(id[:n], p.prefix) && !strings.Contains(id[n:], "/") {
		return strings.ToLower(id[n:]), nil // fast path for almost all IDs
	}
	path, ok := strings.CutPrefix(id, "azure://")
	if !ok {
		return "", fmt.Errorf("provider ID %q does not start with azure://: %w", id, provider.ErrForeign)
	}
	parsed, err := arm.ParseResourceID(path)
	if err != nil {
		return "", fmt.Errorf("provider ID %q: %w: %w", id, provider.ErrForeign, err)
	}
	if !strings.EqualFold(parsed.ResourceType.String(), "Microsoft.Compute/virtualMachines") {
		return "", fmt.Errorf("provider ID %q is not a virtual machine: %w", id, provider.ErrForeign)
	}
	if !strings.EqualFold(parsed.SubscriptionID, p.subscription) || !strings.EqualFold(parsed.ResourceGroupName, p.group) {
		return "", fmt.Errorf("provider ID %q is outside the node resource group %s", id, p.group)
	}
	return strings.ToLower(parsed.Name), nil
}
