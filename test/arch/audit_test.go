// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestInvariantsAreTested: docs/audit.md has a row for each invariant and each incident, and each names
// tests that exist in the folder it names, or says that there are none.
func TestInvariantsAreTested(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root(t), "docs", "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, seen := allTests(t), map[string]bool{}
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !auditRow.MatchString(cells[0]) || len(cells) < 2 {
			continue
		}
		if seen[cells[0]] = true; len(cells) != 4 {
			t.Errorf("the row of %s has %d cells, want 4", cells[0], len(cells))
			continue
		}
		named := namedIn(cells[3])
		if len(named) == 0 && !strings.HasPrefix(cells[3], "none") {
			t.Errorf("the row of %s names no test: name one, or say \"none yet\"", cells[0])
		}
		for _, name := range named {
			if !slices.Contains(tests, name) {
				t.Errorf("the row of %s names %s, which does not exist", cells[0], name)
			}
		}
	}
	for _, want := range auditRows() {
		if !seen[want] {
			t.Errorf("docs/audit.md has no row for %s", want)
		}
	}
}

var (
	auditRow   = regexp.MustCompile(`^([SL]?\d+)$`)
	anyTest    = regexp.MustCompile(`\b(?:Test|Fuzz)\w+`)
	testHeader = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// auditRows are S1 to S30, L1 to L7, and incidents 1 to 53.
func auditRows() []string {
	var out []string
	for _, kind := range []struct {
		prefix string
		most   int
	}{{"S", 30}, {"L", 7}, {"", 53}} {
		for n := range kind.most {
			out = append(out, fmt.Sprint(kind.prefix, n+1))
		}
	}
	return out
}

// namedIn reads "`folder` TestA, TestB, `folder` TestC" into "folder TestA" and so on.
func namedIn(cell string) []string {
	var out []string
	for _, part := range inFolder.FindAllStringSubmatch(cell, -1) {
		for _, name := range anyTest.FindAllString(part[2], -1) {
			out = append(out, part[1]+" "+name)
		}
	}
	return out
}

// allTests are the tests of every module, as "folder TestA".
func allTests(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root(t), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root(t) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root(t), filepath.Dir(path))
		for _, m := range testHeader.FindAllStringSubmatch(string(text), -1) {
			out = append(out, filepath.ToSlash(dir)+" "+m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
