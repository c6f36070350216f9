// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	dirs, byDir := folders(sources(t))
	for _, dir := range dirs {
		if !documented(byDir[dir]) {
			t.Errorf("package %s has no package doc: say in one file (doc.go when it is long) what it is, what it refuses to do and what its values mean at zero", dir)
		}
	}
}

func TestNothingRunsBeforeMain(t *testing.T) {
	for _, file := range sources(t) {
		for _, decl := range file.Tree.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && f.Name.Name == "init" && !generated(file) {
				t.Errorf("%s has an init function: start-up order hides there; make it a function that main or the user calls", file.Path)
			}
		}
	}
}

// A package variable that changes is an input nobody passed. What is allowed is
// fixed after its declaration: errors, patterns, tables and embedded files.
func TestPackageVariablesAreNeverWritten(t *testing.T) {
	dirs, byDir := folders(sources(t))
	for _, dir := range dirs {
		names := packageVariables(byDir[dir])
		for _, file := range byDir[dir] {
			if generated(file) {
				continue
			}
			for _, name := range writes(file.Tree, names) {
				t.Errorf("%s writes the package variable %s: package variables are fixed at their declaration; put state in a value that is passed", file.Path, name)
			}
		}
	}
}

// A decision is made by one goroutine, so that it is the same at any GOMAXPROCS. The race
// detector has nothing to look for there: make test leaves it out.
func TestDecisionsStartNoGoroutines(t *testing.T) {
	for _, file := range sources(t) {
		if !within(file.Dir, "engine") && !within(file.Dir, "test/clusterlife") {
			continue
		}
		for _, path := range file.imports() {
			if path == "sync" || path == "sync/atomic" {
				t.Errorf("%s imports %s: what one goroutine does needs no guard", file.Path, path)
			}
		}
		ast.Inspect(file.Tree, func(n ast.Node) bool {
			if _, starts := n.(*ast.GoStmt); starts {
				t.Errorf("%s starts a goroutine: decide in one, or let make test run these packages under the race detector again", file.Path)
			}
			return true
		})
	}
}

func TestNoDrawers(t *testing.T) {
	dirs, _ := folders(sources(t))
	for _, dir := range dirs {
		name := dir[strings.LastIndex(dir, "/")+1:]
		switch name {
		case "util", "utils", "common", "helpers", "misc":
			t.Errorf("package %s is a drawer: a helper lives beside the type it helps, and with a second user becomes a leaf named after what it does", dir)
		}
	}
}

func documented(files []source) bool {
	for _, f := range files {
		if strings.TrimSpace(f.Tree.Doc.Text()) != "" {
			return true
		}
	}
	return false
}

// generated reports whether a tool wrote the file, in the form the go command knows.
func generated(f source) bool { return ast.IsGenerated(f.Tree) }

// packageVariables collects the names declared by var at package level.
func packageVariables(files []source) map[string]bool {
	names := map[string]bool{}
	for _, f := range files {
		for _, decl := range f.Tree.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					names[name.Name] = true
				}
			}
		}
	}
	delete(names, "_")
	return names
}

// writes lists the package variables that the file's functions assign to, to
// their elements or fields, or whose address they take. Names that a function
// declares itself are not package variables there.
func writes(file *ast.File, names map[string]bool) []string {
	var found []string
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		own := declared(f)
		note := func(e ast.Expr) {
			if name := base(e); names[name] && !own[name] {
				found = append(found, name)
			}
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if n.Tok != token.DEFINE {
						note(left)
					}
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			}
			return true
		})
	}
	return found
}

// declared collects every name a function introduces: parameters, results, the
// receiver and local variables anywhere in it.
func declared(f *ast.FuncDecl) map[string]bool {
	own := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					own[base(left)] = true
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				own[base(n.Key)] = true
				own[base(n.Value)] = true
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				own[name.Name] = true
			}
		}
		return true
	})
	return own
}

// base is the variable an expression writes into: m in m[k], s.f, *p and (x).
func base(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return base(e.X)
	case *ast.SelectorExpr:
		return base(e.X)
	case *ast.StarExpr:
		return base(e.X)
	case *ast.ParenExpr:
		return base(e.X)
	}
	return ""
}
