// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMakeTestRunsEveryPackage wants each folder of tests to be named by the
// Makefile: `make test` runs what is outside test/ by a pattern, what is
// within by name.
func TestMakeTestRunsEveryPackage(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	unraced := regexp.MustCompile(`(?m)^UNRACED +:= (.*)$`).FindStringSubmatch(string(makefile))
	if unraced == nil {
		t.Fatal("the Makefile defines no UNRACED")
	}
	named := strings.FieldsFunc(unraced[1], func(r rune) bool { return strings.ContainsRune(" ,()", r) })
	folders, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range folders {
		tests, err := filepath.Glob(filepath.Join("..", f.Name(), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if len(tests) == 0 {
			continue
		}
		seen++
		if !slices.Contains(named, f.Name()) && !slices.Contains(named, "./test/"+f.Name()) &&
			!strings.Contains(string(makefile), "$(TESTFLAGS) ./test/"+f.Name()) {
			t.Errorf("`make test` does not run the tests of test/%s: name it in UNRACED", f.Name())
		}
	}
	if seen < 10 {
		t.Errorf("only %d folders of tests were found", seen)
	}
}
