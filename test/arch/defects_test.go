// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestDefectsAreTested: each row of docs/azure-defects.md names tests that exist in the
// package it names, and every known defect has a row. What is said to be better than the
// incumbent is shown, or it is not said.
func TestDefectsAreTested(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(root(t), "docs", "azure-defects.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, numbered := testsByFolder(t), map[string]bool{}
	for _, row := range rows(string(doc)) {
		for _, n := range defectNumber.FindAllStringSubmatch(row[0], -1) {
			numbered[n[1]] = true
		}
		named := namedTests(row[len(row)-1])
		if len(row) != 3 || len(named) == 0 {
			t.Errorf("%q: want a defect, what karve does and \"`folder` TestName, …\"", strings.Join(row, " | "))
		}
		for folder, names := range named {
			for _, name := range names {
				if !slices.Contains(tests[folder], name) {
					t.Errorf("%q names %s, which %s does not have", row[0], name, folder)
				}
			}
		}
	}
	for _, n := range knownDefects() {
		if !numbered[n] {
			t.Errorf("docs/azure-defects.md has no row for defect [%s]", n)
		}
	}
}

var (
	defectNumber = regexp.MustCompile(`\[(\d+b?)\]`)
	inFolder     = regexp.MustCompile("`([^`]+)`([^`]*)")
	testName     = regexp.MustCompile(`\bTest\w+`)
)

// rows are those of a table below its head, by cell.
func rows(doc string) [][]string {
	var out [][]string
	_, table, _ := strings.Cut(doc, "|---|---|---|\n")
	for line := range strings.Lines(table) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); len(cells) > 1 {
			out = append(out, cells)
		}
	}
	return out
}

// namedTests reads "`folder` TestA, TestB, `folder` TestC".
func namedTests(cell string) map[string][]string {
	named := map[string][]string{}
	for _, part := range inFolder.FindAllStringSubmatch(cell, -1) {
		named[part[1]] = append(named[part[1]], testName.FindAllString(part[2], -1)...)
	}
	return named
}

func testsByFolder(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	for _, file := range sources(t) {
		if !file.Test {
			continue
		}
		for _, d := range file.Tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests[file.Dir] = append(tests[file.Dir], f.Name.Name)
			}
		}
	}
	return tests
}

// knownDefects are the numbers of the list that the document answers.
func knownDefects() []string {
	list := []string{"14b"}
	for i := range 30 {
		list = append(list, strconv.Itoa(i+1))
	}
	return list
}
