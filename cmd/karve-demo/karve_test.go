// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program makes a file that can be run.
func program(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// The karve beside the demo was built with it, and goes before any that is installed.
func TestKarveIsFoundBesideTheDemoThenInPath(t *testing.T) {
	beside, installed := t.TempDir(), t.TempDir()
	t.Setenv("PATH", installed)
	if path, err := findKarve(beside); err == nil || !strings.Contains(err.Error(), beside) || !strings.Contains(err.Error(), "--karve") {
		t.Errorf("with no karve anywhere: %q, %v; want an error that names %s and --karve", path, err, beside)
	}
	for _, folder := range []string{installed, beside} {
		want := program(t, filepath.Join(folder, "karve"))
		if got, err := findKarve(beside); err != nil || got != want {
			t.Errorf("found %q, %v; want %s", got, err, want)
		}
	}
}

// A karve that is named is the one that runs, and a wrong name is an error before anything starts.
func TestNamedKarveIsUsed(t *testing.T) {
	dir := t.TempDir()
	want := program(t, filepath.Join(dir, "other"))
	if got, err := karveBinary(want); err != nil || got != want {
		t.Errorf("found %q, %v; want %s", got, err, want)
	}
	state := filepath.Join(dir, "state")
	cmd := demoCommand()
	cmd.SetArgs([]string{"--bare", "--state-dir", state, "--karve", filepath.Join(dir, "missing")})
	err := cmd.ExecuteContext(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--karve names no program") || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a karve that is missing: %v", err)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state folder: %v; the demo started without a karve", err)
	}
}
