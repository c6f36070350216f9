// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// layout knows where things are in a cluster's directory.
type layout struct{ dir string }

func (l layout) data() string { return filepath.Join(l.dir, "etcd") }
func (l layout) pki() string  { return filepath.Join(l.dir, "pki") }
func (l layout) logs() string { return filepath.Join(l.dir, "logs") }

func (l layout) log(component string) string {
	return filepath.Join(l.logs(), component+".log")
}

func (l layout) pkiFile(name string) string { return filepath.Join(l.pki(), name) }

// wipe removes the files of an earlier run, and makes the directories anew. Only the
// owner may read them: they hold private keys.
func (l layout) wipe() error {
	for _, dir := range []string{l.data(), l.pki(), l.logs()} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// buildHint ends every message about a missing program.
const buildHint = "build it with `make controlplane`"

// findBinary checks the program named, or looks for the one the repository builds.
func findBinary(path string) (string, error) {
	if path == "" {
		root, err := repositoryRoot()
		if err != nil {
			return "", fmt.Errorf("looking for karve-controlplane: %w; %s and pass its path", err, buildHint)
		}
		path = filepath.Join(root, "bin", "karve-controlplane")
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("control plane program: %w; %s", err, buildHint)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("control plane program %s is not executable; %s", path, buildHint)
	}
	return filepath.Abs(path)
}

// repositoryRoot is the nearest directory upwards that holds this project's sources.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "local", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("not inside the repository")
		}
		dir = up
	}
}
