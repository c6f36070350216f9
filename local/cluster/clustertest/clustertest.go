// SPDX-License-Identifier: Apache-2.0

// Package clustertest starts control planes for tests and waits for their results.
//
// Tests are never skipped: without the control plane's binary they mean nothing,
// so they fail. The package has no types.
package clustertest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/karve-dev/karve/local/cluster"
)

// patience is how long a control plane may take over anything on a computer that is
// busy with other tests; it usually needs a second.
const patience = 2 * time.Minute

// Start runs a control plane whose state is in dir until the test ends.
func Start(t *testing.T, dir string) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: dir, Binary: Binary(t),
		Progress: func(step string) { t.Log(step) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// Binary finds the control plane: KARVE_CONTROLPLANE, else in bin beside go.mod.
func Binary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("KARVE_CONTROLPLANE"); path != "" {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.mod")) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, "bin", "karve-controlplane")
	if !exists(path) {
		t.Fatalf("%s is not there: build it with `make controlplane`, or name it in KARVE_CONTROLPLANE", path)
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Eventually asks until the answer is nil. The context ends with its patience.
func Eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v after %s", what, err, patience)
		case <-tick.C:
		}
	}
}
