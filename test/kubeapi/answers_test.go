// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/api/crds"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata from what this server answers")

// The server answers as testdata/answers.txt says, which a real API server is held to as well
// (test/e2e).
func TestAnswers(t *testing.T) {
	var got string
	synctest.Test(t, func(t *testing.T) { got = strings.Join(Answers(t.Context(), newClient(t), "answers"), "\n") + "\n" })
	if *rewrite {
		if err := os.WriteFile("testdata/answers.txt", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func newClient(t *testing.T) client.Client {
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{CRDs: definitions})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.Config(s.Transport("test")), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
