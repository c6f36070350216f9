// SPDX-License-Identifier: Apache-2.0

package armerr

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// A Permission is a permission that karve's identity lacks, as Azure's error describes it.
type Permission struct{ Action, Scope, principal string }

// Phrases of AuthorizationFailed and LinkedAuthorizationFailed. The latter first names what is
// allowed, which is ignored.
var (
	lackedAction    = regexp.MustCompile(`(?:does not have (?:authorization|permission)) to perform action(?:\(s\))? '([^']+)'(?: (?:over|on the linked) scopes?(?:\(s\))? '([^']+)')?`)
	lackedPrincipal = regexp.MustCompile(`object id '([^']+)'`)
)

// lackedPermission parses the permission in a refusal's message; the zero permission when it names
// none.
func lackedPermission(message string) Permission {
	action := lackedAction.FindStringSubmatch(message)
	if action == nil {
		return Permission{}
	}
	p := Permission{Action: action[1], Scope: action[2]}
	if principal := lackedPrincipal.FindStringSubmatch(message); principal != nil {
		p.principal = principal[1]
	}
	return p
}

// roles are the built-in roles that hold an action, the most specific prefix first.
var roles = []struct{ prefix, role string }{
	{"Microsoft.ManagedIdentity/userAssignedIdentities/", "Managed Identity Operator"},
	{"Microsoft.Network/", "Network Contributor"},
	{"Microsoft.Compute/virtualMachines/", "Virtual Machine Contributor"},
	{"Microsoft.Compute/disks/", "Virtual Machine Contributor"},
	{"Microsoft.ContainerService/", "Azure Kubernetes Service Contributor Role"},
}

// role describes a built-in role that holds the action; reads without another entry are those of
// sizes, quota, images and disk encryption sets.
func (p Permission) role() string {
	for _, r := range roles {
		if len(p.Action) >= len(r.prefix) && strings.EqualFold(p.Action[:len(r.prefix)], r.prefix) {
			return fmt.Sprintf("the role %q, or another", r.role)
		}
	}
	if strings.HasSuffix(strings.ToLower(p.Action), "/read") {
		return `the role "Reader", or another`
	}
	return "a role"
}

// Advice returns the next step.
func (p Permission) Advice() string {
	scope, who := "the scope", "the identity karve runs as"
	if p.Scope != "" {
		scope = p.Scope
	}
	if p.principal != "" {
		who = "object id " + p.principal
	}
	return fmt.Sprintf("assign %s with the action %s to %s on %s", p.role(), p.Action, who, scope)
}

// setAdvice sets the next step.
func (r *Failure) setAdvice(message string) {
	r.Advice = cmp.Or(adviceFor(r.Kind, message), adviceByCode[r.Code])
	if r.Kind == Denied {
		r.MissingAction = lackedPermission(message).Action
	}
}

// adviceByCode is the next step when a resource that the settings name does not exist.
var adviceByCode = map[string]string{
	"ResourceGroupNotFound": "correct AZURE_NODE_RESOURCE_GROUP (az aks show --query nodeResourceGroup returns the cluster's), or the id that names the group",
	"SubscriptionNotFound":  "correct ARM_SUBSCRIPTION_ID, or let the identity that karve runs as read that subscription",
}

// adviceFor returns the next step after a refusal, if the user must act.
func adviceFor(k Kind, message string) string {
	switch k {
	case Denied:
		if p := lackedPermission(message); p.Action != "" {
			return p.Advice()
		}
		return "check the identity that karve runs as, its federated credential and its role assignments"
	case Disallowed:
		return "exempt the node resource group from the policy, or give the NodePool requirements that it allows"
	case ImageMissing:
		return "the image is not available in this region: set another imageFamily, or wait until it is published"
	}
	return ""
}
