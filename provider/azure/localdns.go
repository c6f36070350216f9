package azure

import (
	"fmt"

	"github.com/karve-dev/karve/api/v1beta1"
)

// preferredDNS is the minor version of Kubernetes from which AKS turns the DNS cache on where it
// is preferred; below, it takes note of the wish only.
// https://learn.microsoft.com/azure/aks/localdns-custom
const preferredDNS = 37

// WithoutLocalDNS says in words what keeps nodes of a class from running the DNS cache that it
// prefers, as far as versions and network tell; empty when nothing does. Policies that let pods
// reach the cluster's DNS only would cut them off from the cache, so that engines of policies speak
// against it: what policies there are is not looked at.
func (p *Provider) WithoutLocalDNS(class *v1beta1.AKSNodeClass) string {
	o := &p.opts
	version := kubernetesVersion(class)
	switch {
	case minorOf(version) < preferredDNS:
		return fmt.Sprintf("Kubernetes is %s, and AKS turns it on from 1.%d", version, preferredDNS)
	case o.NetworkPlugin == pluginNone:
		return "the network plugin is not AKS's"
	case o.NetworkDataplane == dataplaneCilium:
		return "policies of the cilium dataplane may keep pods from it"
	case o.NetworkPolicy == policyCilium || o.NetworkPolicy == policyCalico:
		return "policies of " + o.NetworkPolicy + " may keep pods from it"
	}
	return ""
}
