// SPDX-License-Identifier: Apache-2.0

package access

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MetricsReader is the cluster role that lets a client read metrics that are served securely.
const MetricsReader = name + "-metrics-reader"

// MetricsAuth is what karve may do in addition when it serves metrics securely: ask the API server
// whose token a client has, and whether that client may read metrics.
func MetricsAuth() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("authentication.k8s.io", "create", "tokenreviews"),
		rule("authorization.k8s.io", "create", "subjectaccessreviews"),
	}
}

// MetricsObjects are the roles for metrics that are served securely by karve in the namespace: the
// one that karve needs, with its binding, and MetricsReader, which is bound to nobody.
func MetricsObjects(namespace string) []client.Object {
	auth := metav1.ObjectMeta{Name: name + "-metrics-auth"}
	return []client.Object{
		&rbacv1.ClusterRole{TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: auth, Rules: MetricsAuth()},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"), ObjectMeta: auth,
			RoleRef:  to("ClusterRole", auth.Name),
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		},
		&rbacv1.ClusterRole{
			TypeMeta: kind("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: MetricsReader},
			Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		},
	}
}
