// SPDX-License-Identifier: Apache-2.0

// Package access says what karve may do in its cluster: as little as lets every
// controller work, features that are off by default included; and what its agent on
// every node may do, which is less.
//
// It installs nothing, and grants nothing to nodes, which join by what their kubelets may do.
// Every call returns fresh objects, which the caller may change. There are no values to be zero.
package access

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// name is of the service account and everything that is bound to it.
const name = "karve"

// User is who karve is to the API server when it runs in the namespace.
func User(namespace string) string { return "system:serviceaccount:" + namespace + ":" + name }

// Options say how karve runs.
type Options struct {
	Namespace string // that karve runs in; required
	// Lease is the name of the lease in Namespace by which replicas elect a leader. Empty: DefaultLease.
	Lease string
	// SurgeNamespaces are those in which karve surges Deployments; EveryNamespace stands for all.
	SurgeNamespaces []string
	// TokenID is the id of the one bootstrap token that karve reads. Empty: it follows all of them.
	TokenID string
}

// EveryNamespace stands for all namespaces where namespaces are listed.
const EveryNamespace = "*"

// DefaultLease is the name of the lease unless karve controller is told another one.
const DefaultLease = "karpenter-leader-election"

// Cluster is what karve may do anywhere.
func Cluster() []rbacv1.PolicyRule {
	const karpenter, azure, autoscaling = "karpenter.sh", "karpenter.azure.com", "autoscaling.x-k8s.io"
	return []rbacv1.PolicyRule{
		// What state.Mirror watches.
		watch("", "pods", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
		watch("apps", "daemonsets", "replicasets", "statefulsets"),
		watch("batch", "jobs"),
		watch("policy", "poddisruptionbudgets"),
		watch("storage.k8s.io", "csinodes", "storageclasses", "volumeattachments"),
		watch(karpenter, "nodepools", "nodeclaims", "nodeoverlays"),
		watch(azure, "aksnodeclasses"),
		watch(autoscaling, "capacitybuffers"),
		watch("", "podtemplates"),

		// What is read past the cache: it is not cached, or must be the newest version.
		rule("", "get", "nodes", "persistentvolumeclaims", "podtemplates"),
		rule("apps", "get", "deployments", "replicasets", "statefulsets"),
		rule(karpenter, "get", "nodepools", "nodeclaims"),
		rule(azure, "get", "aksnodeclasses"),
		named("", "get", "namespaces", metav1.NamespaceSystem), // its UID is the cluster's

		// Nodes are launched and terminated as NodeClaims, labelled, tainted and drained.
		rule(karpenter, "create", "nodeclaims"),
		rule(karpenter, "delete", "nodeclaims"),
		rule(karpenter, "patch", "nodeclaims", "nodepools", "nodeclaims/status", "nodepools/status", "nodeoverlays/status"),
		rule("", "patch", "nodes"),
		rule("", "delete", "nodes", "pods"),
		rule("", "create", "pods/eviction", "events"),
		rule(azure, "patch", "aksnodeclasses", "aksnodeclasses/status"),
		rule(autoscaling, "patch", "capacitybuffers/status"),

		// The admission plugin OwnerReferencesPermissionEnforcement requires this of a
		// client that sets blockOwnerDeletion.
		rule(karpenter, "update", "nodepools/finalizers", "nodeclaims/finalizers"),
	}
}

// Own is what karve may do in its own namespace: take part in the election of a leader by the lease,
// read when AKS means to maintain nodes, and read whether an operator has paused it. A creation has
// no name that a role could go by.
func Own(lease string) []rbacv1.PolicyRule {
	if lease == "" {
		lease = DefaultLease
	}
	leases := named("coordination.k8s.io", "get", "leases", lease)
	leases.Verbs = append(leases.Verbs, "update")
	return []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "create", "leases"),
		leases,
		named("", "get", "configmaps", "upcoming-maintenance-window", "karve-control"),
	}
}

// System is what karve may do in kube-system: ask where the cluster's DNS is, and follow the
// tokens that nodes join with, or only the one with tokenID. Roles cannot tell types of secrets apart;
// karve asks for those of type bootstrap.kubernetes.io/token only. Who strikes that rule out sets
// KUBELET_BOOTSTRAP_TOKEN.
func System(tokenID string) []rbacv1.PolicyRule {
	secrets := watch("", "secrets")
	if tokenID != "" {
		secrets.ResourceNames = []string{TokenSecret(tokenID)}
	}
	return []rbacv1.PolicyRule{named("", "get", "services", "kube-dns"), secrets}
}

// TokenSecret is the name of the secret that holds a bootstrap token, as the API server wants it.
func TokenSecret(id string) string { return "bootstrap-token-" + id }

// Surge is what karve may do in addition where it surges: restart Deployments that ask for it, to
// move their only pod (karve.dev/surge). A client that may do so can run any pod there, as any
// service account of the namespace.
func Surge() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("apps", "patch", "deployments")}
}

// watch permits what an informer does.
func watch(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"list", "watch"}}
}

func rule(group, verb string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{verb}}
}

// named permits a verb on single objects.
func named(group, verb, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: []string{verb}}
}

// Objects are karve's service account, and the roles with their bindings.
func Objects(o Options) []client.Object {
	account := &corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}}
	all := []client.Object{account}
	all = append(all, everywhere(account, name, Cluster())...)
	all = append(all, local(account, o.Namespace, name, Own(o.Lease))...)
	all = append(all, local(account, metav1.NamespaceSystem, name+"-system", System(o.TokenID))...)
	for _, namespace := range o.SurgeNamespaces {
		if namespace == EveryNamespace {
			all = append(all, everywhere(account, name+"-surge", Surge())...)
			continue
		}
		all = append(all, local(account, namespace, name+"-surge", Surge())...)
	}
	return all
}

// everywhere is a cluster role, bound to the account in all namespaces.
func everywhere(account *corev1.ServiceAccount, role string, rules []rbacv1.PolicyRule) []client.Object {
	of := metav1.ObjectMeta{Name: role}
	return []client.Object{
		&rbacv1.ClusterRole{TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: of, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), ObjectMeta: of,
			RoleRef: to("ClusterRole", role), Subjects: subjects(account),
		},
	}
}

// local is a role in a namespace, bound to the account.
func local(account *corev1.ServiceAccount, namespace, role string, rules []rbacv1.PolicyRule) []client.Object {
	of := metav1.ObjectMeta{Namespace: namespace, Name: role}
	return []client.Object{
		&rbacv1.Role{TypeMeta: kind("rbac.authorization.k8s.io/v1", "Role"), ObjectMeta: of, Rules: rules},
		&rbacv1.RoleBinding{
			TypeMeta: kind("rbac.authorization.k8s.io/v1", "RoleBinding"), ObjectMeta: of,
			RoleRef: to("Role", role), Subjects: subjects(account),
		},
	}
}

func kind(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func to(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func subjects(a *corev1.ServiceAccount) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: a.Namespace, Name: a.Name}}
}
