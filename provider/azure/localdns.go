// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"fmt"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// preferredDNS is the minor version of Kubernetes from which AKS enables the DNS cache in mode
// Preferred; below, AKS only records the preference.
// https://learn.microsoft.com/azure/aks/localdns-custom
const preferredDNS = 37

// withoutLocalDNS describes why nodes of a node class do not run the DNS cache in mode
// Preferred, by versions and network settings; empty when they do. Network policies that allow
// pods to reach only the cluster's DNS would cut them off from the cache, so a network policy
// engine is a reason; the policies themselves are not read.
func withoutLocalDNS(class *v1beta1.AKSNodeClass, cni network.CNI) string {
	version := kubeversion.Of(class)
	switch {
	case kubeversion.Minor(version) < preferredDNS:
		return fmt.Sprintf("Kubernetes is %s, and AKS turns it on from 1.%d", version, preferredDNS)
	case cni.Plugin == network.PluginNone:
		return "the network plugin is not AKS's"
	case cni.Dataplane == network.DataplaneCilium:
		return "policies of the cilium dataplane may keep pods from it"
	case cni.Policy == network.PolicyCilium || cni.Policy == network.PolicyCalico:
		return "policies of " + cni.Policy + " may keep pods from it"
	}
	return ""
}
