// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/karve-dev/karve"

// source is one Go file of the main module.
type source struct {
	Path string // slash-separated, relative to the root
	Dir  string // its package's folder; "." for the root
	Test bool
	Tree *ast.File
}

// imports lists the file's import paths.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.Tree.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err == nil { // the parser accepted it as a string
			paths = append(paths, path)
		}
	}
	return paths
}

// root is the folder of the main module's go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("test/arch must sit two folders below go.mod: %v", err)
	}
	return dir
}

// sources parses every Go file of the main module, nested modules left out.
func sources(t *testing.T) []source {
	t.Helper()
	top := root(t)
	var files []source
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(top, path, entry.Name())
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parse(top, path)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatalf("reading the module's sources: %v", err)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d Go files below %s: the walk is broken", len(files), top)
	}
	return files
}

// enter says whether a folder is part of the module, as the go command sees it.
func enter(top, path, name string) error {
	if path == top {
		return nil
	}
	if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func parse(top, path string) (source, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	relative, err := filepath.Rel(top, path)
	if err != nil {
		return source{}, err
	}
	slashed := filepath.ToSlash(relative)
	return source{
		Path: slashed,
		Dir:  filepath.ToSlash(filepath.Dir(relative)),
		Test: strings.HasSuffix(slashed, "_test.go"),
		Tree: tree,
	}, nil
}

// folders groups the non-test files by package folder, in order.
func folders(files []source) (dirs []string, byDir map[string][]source) {
	byDir = map[string][]source{}
	for _, f := range files {
		if f.Test {
			continue
		}
		if byDir[f.Dir] == nil {
			dirs = append(dirs, f.Dir)
		}
		byDir[f.Dir] = append(byDir[f.Dir], f)
	}
	sort.Strings(dirs)
	return dirs, byDir
}

// within reports whether a folder is top or lies below it.
func within(dir, top string) bool {
	return dir == top || strings.HasPrefix(dir, top+"/")
}

// longest returns the most specific of the folders that hold dir.
func longest(dir string, tops []string) (string, bool) {
	best := ""
	for _, top := range tops {
		if within(dir, top) && len(top) > len(best) {
			best = top
		}
	}
	return best, best != ""
}

// license is the first line of every source file that is not generated.
const license = "// SPDX-License-Identifier: Apache-2.0\n\n"

func TestSourcesNameTheirLicense(t *testing.T) {
	top := root(t)
	for _, f := range sources(t) {
		text, err := os.ReadFile(filepath.Join(top, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(f.Tree) && !strings.HasPrefix(string(text), license) {
			t.Errorf("%s does not begin with %q", f.Path, strings.TrimSpace(license))
		}
	}
}
