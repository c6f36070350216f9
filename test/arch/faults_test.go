// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// How many rows of docs/faults.md may have no test yet, and how many faults cannot be encoded. Both
// become fewer only.
const (
	mostFaultsWithoutTest = 1
	mostFaultsNotEncoded  = 1
)

// A faultRow is a numbered row of docs/faults.md.
type faultRow struct{ surface, number, injectedBy, tests string }

// TestFaultsAreTested: docs/faults.md has the 188 faults, numbered in order, on their surfaces. Each names
// tests that exist in the folder it names, or says that there are none yet, or why it cannot be
// encoded; those are no more than before.
func TestFaultsAreTested(t *testing.T) {
	rows, surfaces := faultRows(t)
	tests, none, notEncoded := allTests(t), 0, 0
	for i, row := range rows {
		if row.number != strconv.Itoa(i+1) {
			t.Errorf("row %d of docs/faults.md has the number %s", i+1, row.number)
		}
		named := namedIn(row.tests)
		for _, name := range named {
			if !slices.Contains(tests, name) {
				t.Errorf("fault %s names %s, which does not exist", row.number, name)
			}
		}
		switch {
		case row.tests == "none yet":
			none++
		case strings.HasPrefix(row.tests, "cannot be encoded: "):
			notEncoded++
		case len(named) == 0:
			t.Errorf("fault %s names no test: name one, or say \"none yet\"", row.number)
		}
	}
	want := []string{
		"ARM transport 23", "ARM throttle 14", "ARM async 9", "Compute 21", "Network and disks 9", "Catalogue 13", "Identity 7",
		"Kubernetes API 20", "Process 13", "Time 8", "Node and kubelet 15", "Workload 24", "Operator 12",
	}
	if !slices.Equal(surfaces, want) {
		t.Errorf("docs/faults.md has the surfaces %q, want %q", surfaces, want)
	}
	if none != mostFaultsWithoutTest || notEncoded != mostFaultsNotEncoded {
		t.Errorf("%d faults have no test and %d cannot be encoded, the constants here say %d and %d: lower them to what is left, or find tests",
			none, notEncoded, mostFaultsWithoutTest, mostFaultsNotEncoded)
	}
}

// TestFaultsOfTheAPIServerExist: the faults of test/kubeapi that docs/faults.md names are those that it has.
func TestFaultsOfTheAPIServerExist(t *testing.T) {
	known := stringConstants(t, "test/kubeapi")
	rows, _ := faultRows(t)
	for _, row := range rows {
		names, ofServer := strings.CutPrefix(row.injectedBy, "`test/kubeapi` ")
		if !ofServer {
			continue
		}
		for _, name := range strings.Split(names, ", ") {
			if !slices.Contains(known, name) {
				t.Errorf("fault %s is injected by %s, which test/kubeapi does not have", row.number, name)
			}
		}
	}
}

var faultSurface = regexp.MustCompile(`^## (.+) \((\d+)\)\s*$`)

// faultRows reads the numbered rows of docs/faults.md, and its surfaces with the rows that each has.
func faultRows(t *testing.T) (rows []faultRow, surfaces []string) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(root(t), "docs", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	surface, count := "", map[string]int{}
	for line := range strings.Lines(string(doc)) {
		if m := faultSurface.FindStringSubmatch(line); m != nil {
			surface = m[1]
			surfaces = append(surfaces, m[1]+" "+m[2])
			continue
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if _, err := strconv.Atoi(cells[0]); err != nil {
			continue
		}
		if count[surface]++; len(cells) != 4 {
			t.Fatalf("the row of fault %s has %d cells, want 4", cells[0], len(cells))
		}
		rows = append(rows, faultRow{surface, cells[0], cells[2], cells[3]})
	}
	for _, s := range surfaces {
		if name := s[:strings.LastIndex(s, " ")]; fmt.Sprint(name, " ", count[name]) != s {
			t.Errorf("%s has %d faults, and its title says %q", name, count[name], s)
		}
	}
	return rows, surfaces
}

// stringConstants are the values of string constants of a folder's package.
func stringConstants(t *testing.T, dir string) (values []string) {
	t.Helper()
	for _, file := range sources(t) {
		if file.Dir != dir || file.Test {
			continue
		}
		for _, d := range file.Tree.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			ast.Inspect(group, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					value, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, value)
				}
				return true
			})
		}
	}
	return values
}
