// SPDX-License-Identifier: Apache-2.0

package access

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// auditName is of the auditor's service account, and of everything that is bound to it.
const auditName = "karve-audit"

// AuditUser is who the auditor is to the API server when it runs in the namespace.
func AuditUser(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + auditName
}

// Audit is what the auditor may do: watch what it judges by, and change nothing.
func Audit() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		watch("", "pods", "nodes", "events"),
		watch("policy", "poddisruptionbudgets"),
		watch("karpenter.sh", "nodepools", "nodeclaims"),
	}
}

// AuditObjects are the auditor's service account in the namespace, and its role with its binding.
func AuditObjects(namespace string) []client.Object {
	account := &corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: auditName}}
	return append([]client.Object{account}, everywhere(account, auditName, Audit())...)
}
