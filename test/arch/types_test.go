// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A type has one job: beyond these sizes it is several types that share their state.
const (
	maxMethods = 40
	maxFields  = 20
)

// wide are the types that have more, with the reason why one type is right.
var wide = map[string]string{
	"api/v1beta1.SysctlConfiguration":        "one field for each sysctl that AKS lets users set",
	"azureemulator.Options":                  "one field for each setting of an emulated region",
	"azureemulator/catalog.Size":             "one field for each column of Azure's list of sizes",
	"controller/controllertest.Env":          "one field for each reconciler, so that a test calls any of them",
	"controller/manager.Options":             "one field for each setting of the process",
	"controller/metrics.Set":                 "one field for each metric",
	"engine/cluster.Pod":                     "one field for each thing that a pod's spec asks of its node",
	"engine/cluster.PodClass":                "what a class's pods ask, and what decisions derive from that once",
	"engine/cluster.PodShape":                "what a shape's pods ask of a node, compiled",
	"provider/azure.Options":                 "one field for each setting of the provider",
	"provider/azure/bootstrap.NodeConfig":    "one field for each thing that an image is told at boot",
	"provider/azure/bootstrap.configuration": "the wire format of AKS's boot contract",
	"kube/state.Mirror":                      "the lock and one short method for each question of a controller; its state is in parts",
}

// size is what a type consists of.
type size struct{ Methods, Fields int }

func (s size) String() string { return fmt.Sprintf("%d methods and %d fields", s.Methods, s.Fields) }

func (s size) small() bool { return s.Methods <= maxMethods && s.Fields <= maxFields }

// No type has more than 40 methods or 20 fields, but for those with a reason; and a reason
// goes when its type has become small.
func TestTypesAreSmall(t *testing.T) {
	sizes := typeSizes(sources(t))
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		switch s := sizes[name]; {
		case !s.small() && wide[name] == "":
			t.Errorf("%s has %s, want at most %d and %d: which parts of it own something?", name, s, maxMethods, maxFields)
		case s.small() && wide[name] != "":
			t.Errorf("%s has %s: it needs no exception any more", name, s)
		}
	}
	for name := range wide {
		if _, known := sizes[name]; !known {
			t.Errorf("the exception for %s names no type", name)
		}
	}
}

// typeSizes measures the types of all packages, tests left out, as folder.Type.
func typeSizes(files []source) map[string]size {
	sizes := map[string]size{}
	for _, f := range files {
		if f.Test || strings.HasPrefix(f.Path[strings.LastIndex(f.Path, "/")+1:], "zz_generated") {
			continue
		}
		for _, d := range f.Tree.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						s := sizes[f.Dir+"."+t.Name.Name]
						s.Fields = fieldCount(t.Type)
						sizes[f.Dir+"."+t.Name.Name] = s
					}
				}
			case *ast.FuncDecl:
				if name := receiver(d); name != "" {
					s := sizes[f.Dir+"."+name]
					s.Methods++
					sizes[f.Dir+"."+name] = s
				}
			}
		}
	}
	return sizes
}

// fieldCount is how many fields a struct has, embedded ones included.
func fieldCount(t ast.Expr) int {
	s, ok := t.(*ast.StructType)
	if !ok {
		return 0
	}
	return s.Fields.NumFields()
}

// receiver names the type that a method belongs to; empty for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}
