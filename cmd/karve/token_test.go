// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// tokenSecret is a token as AKS and kubeadm keep it. It lives for so long; zero: for ever.
func tokenSecret(id string, life time.Duration) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	if life != 0 {
		s.Data["expiration"] = []byte(time.Now().Add(life).UTC().Format(time.RFC3339))
	}
	return s
}

func spoilt(s *corev1.Secret, spoil func(*corev1.Secret)) *corev1.Secret {
	spoil(s)
	return s
}

// follow runs the tokens of a cluster until the test ends.
func follow(t *testing.T, cluster *fake.Clientset, flag string) *bootstrapTokens {
	t.Helper()
	return followOne(t, cluster, "", flag)
}

// followOne is follow for the token with an id.
func followOne(t *testing.T, cluster *fake.Clientset, id, flag string) *bootstrapTokens {
	t.Helper()
	tokens, err := newBootstrapTokens(cluster, id, flag, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = tokens.Start(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return tokens
}

func wantToken(t *testing.T, tokens *bootstrapTokens, id string) {
	t.Helper()
	synctest.Wait()
	got, err := tokens.Token(t.Context())
	if want := id + ".0123456789abcdef"; err != nil || got != want {
		t.Fatalf("got token %.6s…, %v: want that of %s", got, err, id)
	}
}

// Tokens are rotated: a new one is made, the old one expires or goes. Every launch
// shows one that the API server still takes.
//
// Rule BOOTSTRAP-1.
func TestTokenIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := fake.NewClientset(tokenSecret("aaaaaa", time.Hour))
		tokens, secrets := follow(t, cluster, "ffffff.0123456789abcdef"), cluster.CoreV1().Secrets(metav1.NamespaceSystem)
		wantToken(t, tokens, "aaaaaa")

		if _, err := secrets.Create(t.Context(), tokenSecret("bbbbbb", 3*time.Hour), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wantToken(t, tokens, "bbbbbb")
		if err := secrets.Delete(t.Context(), "bootstrap-token-bbbbbb", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		wantToken(t, tokens, "aaaaaa")
		time.Sleep(time.Hour - tokenReserve + time.Second) // of the bubble: no time passes
		wantToken(t, tokens, "ffffff")
		if _, err := secrets.Create(t.Context(), tokenSecret("cccccc", 0), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wantToken(t, tokens, "cccccc")
	})
}

// Of the tokens only the named one is asked for, so that a role can name its secret.
//
// Rule BOOTSTRAP-1.
func TestOnlyTheNamedTokenIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := fake.NewClientset()
		var asked []string
		cluster.PrependReactor("list", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
			name, _ := a.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("metadata.name")
			asked = append(asked, name)
			return false, nil, nil
		})
		tokens := followOne(t, cluster, "aaaaaa", "")
		synctest.Wait()
		if _, err := tokens.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "no secret bootstrap-token-aaaaaa, which --bootstrap-token-id (or BOOTSTRAP_TOKEN_ID) names,") {
			t.Errorf("got %v, want an error that names the secret", err)
		}
		if want := []string{"bootstrap-token-aaaaaa"}; !slices.Equal(asked, want) {
			t.Errorf("asked for the secrets %q, want %q", asked, want)
		}
	})
}

// What the API server's authenticator would refuse is no token.
//
// Rule BOOTSTRAP-1.
func TestTokenMustBeUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := fake.NewClientset(
			spoilt(tokenSecret("baaaaa", 0), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }),
			spoilt(tokenSecret("bbaaaa", 0), func(s *corev1.Secret) { s.Name = "bootstrap-token-other0" }),
			spoilt(tokenSecret("bbbaaa", 0), func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }),
			spoilt(tokenSecret("bbbbaa", 0), func(s *corev1.Secret) { s.Data["token-secret"] = []byte("short") }),
			spoilt(tokenSecret("bbbbba", 0), func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") }),
			tokenSecret("bbbbbb", -time.Hour),
			tokenSecret("cccccc", time.Minute),
		)
		tokens := follow(t, cluster, "")
		synctest.Wait()
		token, err := tokens.Token(t.Context())
		if token != "" || err == nil || !strings.Contains(err.Error(), "KUBELET_BOOTSTRAP_TOKEN") {
			t.Errorf("got token %.6s…, %v: want an error that says what to do", token, err)
		}
	})
}

// A role without the right to read tokens leaves the flag; without it the error
// tells both ways out.
//
// Rule BOOTSTRAP-1.
func TestTokenOfTheFlagWhereReadingIsForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := fake.NewClientset()
		cluster.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)
		})
		wantToken(t, follow(t, cluster, "ffffff.0123456789abcdef"), "ffffff")
		tokens := follow(t, cluster, "")
		synctest.Wait()
		if _, err := tokens.Token(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "karve rbac") {
			t.Errorf("got %v: want a refusal that names the roles", err)
		}
	})
}
