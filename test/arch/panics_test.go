// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// unguarded are the folders whose goroutines may end their process: what runs there is no part
// of the product, or is what recovers.
var unguarded = []string{"internal/panics", "local", "test", "azureemulator", "provider/providertest", "controller/controllertest"}

// startsGoroutines are packages that start goroutines on behalf of their callers, with what to
// use instead.
var startsGoroutines = map[string]string{
	"golang.org/x/sync/errgroup":        "panics.Group",
	"golang.org/x/sync/singleflight":    "cached.Once in provider/azure/internal/cached",
	"k8s.io/apimachinery/pkg/util/wait": "panics.Reporter.Loop",
}

// mayImport are files that recover themselves what the package starts.
var mayImport = map[string]string{"golang.org/x/sync/singleflight": "provider/azure/internal/cached/once.go"}

// A panic in a goroutine that nobody guards ends the process, and does so again after each
// restart.
func TestGoroutinesAreGuarded(t *testing.T) {
	for _, file := range product(t) {
		for _, path := range file.imports() {
			if other, starts := startsGoroutines[path]; starts && mayImport[path] != file.Path {
				t.Errorf("%s imports %s, whose goroutines end the process when they panic: use %s", file.Path, path, other)
			}
		}
		ast.Inspect(file.Tree, func(n ast.Node) bool {
			for _, complaint := range starts(n) {
				t.Errorf("%s %s, which ends the process when it panics: use internal/panics", file.Path, complaint)
			}
			return true
		})
	}
}

// Loops that controller-runtime's manager runs begin again after a panic, and controllers
// recover, each of them.
func TestLoopsAndReconcilersAreGuarded(t *testing.T) {
	recovers := false
	for _, file := range product(t) {
		if !slices.ContainsFunc(file.imports(), func(path string) bool { return strings.HasPrefix(path, "sigs.k8s.io/controller-runtime") }) {
			continue
		}
		ast.Inspect(file.Tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if bare(n) {
					t.Errorf("%s adds a loop that ends the process when it panics: make it a panics.Runnable", file.Path)
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "RecoverPanic" {
					recovers = recovers || file.Path == "controller/manager/manager.go"
					if file.Path != "controller/manager/manager.go" {
						t.Errorf("%s says for itself whether a reconciler recovers: controller/manager does for all", file.Path)
					}
				}
			}
			return true
		})
	}
	if !recovers {
		t.Error("controller/manager does not say that reconcilers recover")
	}
}

// Handlers of events are registered where something recovers: with the Mirror, with the auditor, or
// with the manager's cache, which wraps those of controllers.
func TestHandlersAreGuarded(t *testing.T) {
	allowed := []string{"kube/state/feed.go", "controller/manager/panics.go", "cmd/karve/audit.go"}
	for _, file := range product(t) {
		ast.Inspect(file.Tree, func(n ast.Node) bool {
			f, ok := n.(*ast.SelectorExpr)
			if ok && strings.HasPrefix(f.Sel.Name, "AddEventHandler") && !slices.Contains(allowed, file.Path) {
				t.Errorf("%s registers a handler that ends the process when it panics: let a controller watch, or use internal/panics", file.Path)
			}
			return true
		})
	}
}

// product are the files that a user runs.
func product(t *testing.T) []source {
	var out []source
	for _, file := range sources(t) {
		if _, not := longest(file.Dir, unguarded); !not && !file.Test {
			out = append(out, file)
		}
	}
	return out
}

// starts says how a statement or call starts a goroutine; nothing when it does not.
func starts(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return []string{"has a go statement"}
	case *ast.SelectorExpr:
		if in, ok := n.X.(*ast.Ident); ok {
			switch in.Name + "." + n.Sel.Name {
			case "sync.WaitGroup", "time.AfterFunc", "context.AfterFunc":
				return []string{"uses " + in.Name + "." + n.Sel.Name}
			}
		}
	}
	return nil
}

// bare reports whether a call adds something else than a panics.Runnable to a manager.
func bare(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Add" || len(call.Args) != 1 || !manager(f.X) {
		return false
	}
	made, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return true
	}
	of, ok := made.Type.(*ast.SelectorExpr)
	return !ok || of.Sel.Name != "Runnable"
}

// manager reports whether an expression is a manager's, as those are called: m, mgr or inner.
func manager(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "m" || e.Name == "mgr"
	case *ast.SelectorExpr:
		return e.Sel.Name == "inner"
	}
	return false
}
