// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/access"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/local"
)

// Metrics that are served securely are given to clients only whose token the API server knows and
// whom a role lets read them. karve has the roles that its command prints, and no others.
//
// Rule METRIC-6.
func TestSecureMetricsNeedTokenAndRole(t *testing.T) {
	ownEnvironments.wait(t)
	b := commands(t)
	env, err := local.Start(t.Context(), local.Options{
		Dir: t.TempDir(), Controlplane: b.controlplane, Karve: b.karve,
		KarveEnv: []string{"METRICS_SECURE=true", "LEADER_ELECTION_LEASE_DURATION=60s"},
		Azure:    azureemulator.Options{TimeScale: 0.02, Seed: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	reader := serviceAccount(t, env, "prometheus")
	if code, _ := scrape(t, env, reader); code != http.StatusInternalServerError {
		t.Errorf("karve may not ask the API server yet, and answers %d", code)
	}
	roles, err := exec.CommandContext(t.Context(), b.karve, "rbac", "--metrics-secure").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Apply(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	bound := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: access.MetricsReader},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "prometheus"}},
	}
	if err := env.Client().Create(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	for who, c := range map[string]struct {
		token string
		want  int
	}{
		"nobody": {"", http.StatusUnauthorized},
		// A TokenReview says that the token is wrong in the place of an error, which the filter of
		// controller-runtime takes for one.
		"an unknown":   {"not-a-token", http.StatusInternalServerError},
		"another role": {serviceAccount(t, env, "somebody"), http.StatusForbidden},
		"a reader":     {reader, http.StatusOK},
	} {
		code, body := 0, ""
		err := local.Until(t.Context(), waitLimit, "the answer to "+who, func(context.Context) (bool, error) {
			code, body = scrape(t, env, c.token) // authorizers follow their roles, and cache denials
			if code != c.want {
				return false, fmt.Errorf("answered %d", code)
			}
			return true, nil
		})
		if err != nil || (code == http.StatusOK) != strings.Contains(body, "karve_paused") {
			t.Errorf("%s gets %d, want %d; the metrics are %d bytes: %v", who, code, c.want, len(body), err)
		}
	}
}

// scrape reads the metrics over HTTPS with a token.
func scrape(t *testing.T, env *local.Environment, token string) (code int, body string) {
	t.Helper()
	_, address := env.KarveProcess()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the certificate is self-signed
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// serviceAccount creates a service account and returns a token of it.
func serviceAccount(t *testing.T, env *local.Environment, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := env.Client().Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	token := &authenticationv1.TokenRequest{}
	if err := env.Client().SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}
