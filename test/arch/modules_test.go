// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// heavy are modules that must never reach the product's module: each pulls a
// tree of its own, and lives behind a module of ours instead.
var heavy = map[string]string{
	"k8s.io/kubernetes":            "local/controlplane links Kubernetes",
	"go.etcd.io/etcd/server/v3":    "local/controlplane links etcd",
	"sigs.k8s.io/kwok":             "local/controlplane links kwok",
	"k8s.io/kubectl":               "local/controlplane links kubectl",
	"sigs.k8s.io/controller-tools": "hack/tools pins controller-gen",
	"honnef.co/go/tools":           "hack/lint pins the linters",
	"github.com/golangci":          "hack/lint pins the linters",
	"github.com/aws/":              "adapters are modules of their own",
	"github.com/onsi/":             "tests use the standard testing package",
	"github.com/stretchr/testify":  "tests use the standard testing package and go-cmp",
}

func TestTheProductStaysLight(t *testing.T) {
	for _, required := range requirements(t, filepath.Join(root(t), "go.mod")) {
		for module, why := range heavy {
			if strings.HasPrefix(required, module) {
				t.Errorf("go.mod requires %s: %s; the main module must stay quick to build and to audit", required, why)
			}
		}
	}
}

// Replace directives do not travel: who installs the command by its path would
// get other code than we test.
func TestTheProductReplacesNothing(t *testing.T) {
	for _, line := range lines(t, filepath.Join(root(t), "go.mod")) {
		if strings.HasPrefix(line, "replace") {
			t.Errorf("go.mod has %q: require a released version instead", line)
		}
	}
}

// An own module must never be required by the product; it may require the product.
func TestOwnModulesStayOutside(t *testing.T) {
	for _, required := range requirements(t, filepath.Join(root(t), "go.mod")) {
		if strings.HasPrefix(required, module+"/") {
			t.Errorf("go.mod requires %s, a module of ours that exists to keep its dependencies out", required)
		}
	}
}

// requirements lists the module paths a go.mod requires, indirect ones included.
func requirements(t *testing.T, file string) []string {
	t.Helper()
	var paths []string
	inside := false
	for _, line := range lines(t, file) {
		switch {
		case line == "require (":
			inside = true
		case line == ")":
			inside = false
		case inside && line != "":
			paths = append(paths, strings.Fields(line)[0])
		case strings.HasPrefix(line, "require "):
			paths = append(paths, strings.Fields(line)[1])
		}
	}
	if len(paths) == 0 {
		t.Fatalf("found no requirements in %s: the reader of go.mod is broken", file)
	}
	return paths
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(string(text), "\n")
	for i, line := range all {
		all[i] = strings.TrimSpace(line)
	}
	return all
}
