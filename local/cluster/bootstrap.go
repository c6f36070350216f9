// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// kwokUser is the user of the simulated kubelets at the API server.
const kwokUser = "karve:kwok"

// Groups of the API server: holders of a bootstrap token, and nodes.
const (
	bootstrappers = "system:bootstrappers"
	nodes         = "system:nodes"
)

// installBootstrap lets kubelets join with the bootstrap token, have their certificate
// requests approved, and renew them, as kubeadm and AKS arrange it; and lets kwok play
// kubelet.
func (c *Cluster) installBootstrap(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, kwokRole(), metav1.CreateOptions{})
	if err := ignoreExists(err); err != nil {
		return fmt.Errorf("creating kwok's role: %w", err)
	}
	for _, binding := range bindings() {
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		if err := ignoreExists(err); err != nil {
			return fmt.Errorf("creating binding %s: %w", binding.Name, err)
		}
	}
	// The API server creates its namespaces after it is ready.
	secret := tokenSecret(c.token)
	return c.await(ctx, "creating bootstrap token", func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

// installAccounts creates the service accounts that kube-controller-manager would: pods cannot be
// created before.
func (c *Cluster) installAccounts(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
		err := c.await(ctx, "creating the service account of "+namespace, func(ctx context.Context) error {
			_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
			return ignoreExists(err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func bindings() []*rbacv1.ClusterRoleBinding {
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	return []*rbacv1.ClusterRoleBinding{
		binding("karve:kubelet-bootstrap", "system:node-bootstrapper", group(bootstrappers)),
		binding("karve:node-autoapprove-bootstrap", requests+"nodeclient", group(bootstrappers)),
		binding("karve:node-autoapprove-renewal", requests+"selfnodeclient", group(nodes)),
		binding(kwokUser, kwokUser, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kwokUser}),
	}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func binding(name, role string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
}

// kwokRole allows the requests of the stages: report on nodes and pods, end pods, renew leases.
func kwokRole() *rbacv1.ClusterRole {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: kwokUser},
		Rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes", "pods"}, "get", "list", "watch"),
			rule("", []string{"nodes/status", "pods/status"}, "patch"),
			rule("", []string{"pods"}, "delete"),
			rule("", []string{"events"}, "create", "patch"),
			rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "create", "update"),
		},
	}
}

const (
	tokenIDLength     = 6
	tokenSecretLength = 16
)

// newBootstrapToken makes a token of the form the API server demands.
func newBootstrapToken() (string, error) {
	id, err := randomText(tokenIDLength)
	if err != nil {
		return "", err
	}
	secret, err := randomText(tokenSecretLength)
	return id + "." + secret, err
}

// randomText draws from 32 of the 36 characters a token may hold, so that every byte
// maps evenly.
func randomText(length int) (string, error) {
	const alphabet = "abcdefghijkmnpqrstuvwxyz23456789"
	text := make([]byte, length)
	if _, err := rand.Read(text); err != nil {
		return "", errors.Join(errors.New("reading random bytes"), err)
	}
	for i, b := range text {
		text[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(text), nil
}

// tokenSecret stores the token where the API server looks for it. It never expires: it
// ends with the cluster.
func tokenSecret(token string) *corev1.Secret {
	id, secret := token[:tokenIDLength], token[tokenIDLength+1:]
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"description":                    "lets simulated kubelets join",
			"token-id":                       id,
			"token-secret":                   secret,
			"usage-bootstrap-authentication": "true",
			"usage-bootstrap-signing":        "true",
		},
	}
}
