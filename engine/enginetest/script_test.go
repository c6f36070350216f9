// SPDX-License-Identifier: Apache-2.0

package enginetest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/karve-dev/karve/engine/enginetest"
)

// TestFormat checks that Parse reads back what Format writes as the same script.
func TestFormat(t *testing.T) {
	for seed := range uint64(1000) {
		script := enginetest.RandomFull(seed, 1+int(seed%30))
		text := enginetest.Format(script)
		again, err := enginetest.Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(script, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("seed %d: (-written +read)\n%s\n%s", seed, diff, text)
		}
	}
}

// TestTypos checks that an unknown word is an error that repeats the word.
func TestTypos(t *testing.T) {
	for _, line := range []string{
		"pods web cpu=1 sprad=zone:1", "pods web x2 cpu=one", "pod web spread=zone", "pod web port=8080", "pod web port=TCP/70000000000",
		"pod web affinity=zone:", "pod web affinity:zone=app:web", "pod web prefer:zone=In:1", "pod web volume-in:zone=In:1", "pod web volume=a:b:c", "settings surplus=NaN%", "settings hurry",
		"offering D4 price=1", "type D4 cpu=4 price=NaN", "type D4 cpu=4 price=-1", "type D4 cpu=NaN", "type D4 reserved=0.01", "namespace a env=prod", "node n cpu=1 limbo", "cluster c",
	} {
		_, err := enginetest.Parse(line)
		if err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: error %v does not repeat the line", line, err)
		}
	}
}
