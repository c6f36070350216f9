// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/test/kubeapi"
)

// The API server in memory, in which simulations live, answers as the real one does.
func TestAPIServerInMemoryAnswersAlike(t *testing.T) {
	env := plain.take(t)
	const namespace = "answers"
	c, err := client.New(env.RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../kubeapi/testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(kubeapi.Answers(t.Context(), c, namespace), "\n") + "\n"
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-in memory +real\n%s", diff)
	}
}
