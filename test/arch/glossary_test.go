// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxGlossary is how many words of karve's own a newcomer is asked to learn.
const maxGlossary = 25

// Each word of docs/glossary.md names a type that exists, and there are few of them.
func TestGlossaryNamesTypes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| ([a-z][a-z -]*) \\| .* \\| (`.*`) \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 || len(rows) > maxGlossary {
		t.Errorf("docs/glossary.md has %d words, want 1 to %d: use the field's words", len(rows), maxGlossary)
	}
	declared := declaredTypes(sources(t))
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			parts := strings.SplitN(name[1], ".", 3)
			if len(parts) < 2 || !declared[parts[0]+"."+parts[1]] {
				t.Errorf("docs/glossary.md: %q names %s, which is not declared", row[1], name[1])
			}
		}
	}
}

// declaredTypes are the types of the module's packages, as package.Type.
func declaredTypes(files []source) map[string]bool {
	declared := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f.Tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				declared[f.Tree.Name.Name+"."+spec.Name.Name] = true
			}
			return true
		})
	}
	return declared
}
