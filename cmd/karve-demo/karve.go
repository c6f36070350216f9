// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// karveBinary is the karve to run: the one that --karve names, else the one beside this
// executable, where make puts both, else the one in PATH.
func karveBinary(named string) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("--karve names no program: %w", err)
		}
		return path, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this executable: %w", err)
	}
	return findKarve(filepath.Dir(self))
}

// findKarve looks for karve in the folder, then in PATH.
func findKarve(folder string) (string, error) {
	if path, err := exec.LookPath(filepath.Join(folder, "karve")); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("karve")
	if err != nil {
		return "", fmt.Errorf("no karve in %s or in PATH: run 'make build', or name the binary with --karve", folder)
	}
	return path, nil
}
