package azure

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// A permission is what karve's identity lacks, by Azure's error.
type permission struct{ action, scope, principal string }

// Phrases of AuthorizationFailed and LinkedAuthorizationFailed. The latter first names what is
// allowed, which is ignored.
var (
	lackedAction = regexp.MustCompile(`(?:does not have (?:authorization|permission)) to perform action(?:\(s\))? '([^']+)'(?: (?:over|on the linked) scopes?(?:\(s\))? '([^']+)')?`)
	lackedBy     = regexp.MustCompile(`object id '([^']+)'`)
)

// lacked parses the permission in a refusal's message; the zero permission when it names none.
func lacked(message string) permission {
	action := lackedAction.FindStringSubmatch(message)
	if action == nil {
		return permission{}
	}
	p := permission{action: action[1], scope: action[2]}
	if principal := lackedBy.FindStringSubmatch(message); principal != nil {
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
func (p permission) role() string {
	for _, r := range roles {
		if len(p.action) >= len(r.prefix) && strings.EqualFold(p.action[:len(r.prefix)], r.prefix) {
			return fmt.Sprintf("the role %q, or another", r.role)
		}
	}
	if strings.HasSuffix(strings.ToLower(p.action), "/read") {
		return `the role "Reader", or another`
	}
	return "a role"
}

// advice returns the next step.
func (p permission) advice() string {
	scope, who := "the scope", "the identity karve runs as"
	if p.scope != "" {
		scope = p.scope
	}
	if p.principal != "" {
		who = "object id " + p.principal
	}
	return fmt.Sprintf("assign %s with the action %s to %s on %s", p.role(), p.action, who, scope)
}

// advise sets the next step.
func (r *refusal) advise(message string) {
	r.advice = cmp.Or(advise(r.kind, message), absent[r.code])
	if r.kind == denied {
		r.lacks = lacked(message).action
	}
}

// absent is the next step when a resource named in the settings does not exist.
var absent = map[string]string{
	"ResourceGroupNotFound": "correct AZURE_NODE_RESOURCE_GROUP (az aks show --query nodeResourceGroup tells the cluster's), or the id that names the group",
	"SubscriptionNotFound":  "correct ARM_SUBSCRIPTION_ID, or let the identity that karve runs as read that subscription",
}

// advise returns the next step after a refusal, if the user must act.
func advise(k kind, message string) string {
	switch k {
	case denied:
		if p := lacked(message); p.action != "" {
			return p.advice()
		}
		return "check the identity that karve runs as, its federated credential and its role assignments"
	case disallowed:
		return "exempt the node resource group from the policy, or give the NodePool requirements that it allows"
	case imageMissing:
		return "the image is not to be had in this region: set another imageFamily, or wait until it is published"
	}
	return ""
}
