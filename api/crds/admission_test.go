// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/karve-dev/karve/api/crds"
)

// gate does to an object of one kind and version what the API server does on
// create: it drops unknown fields, fills in defaults, and checks schema, list
// keys and CEL rules, with the API server's own code.
type gate struct {
	schema    *structuralschema.Structural
	validator validation.SchemaValidator
	cel       *cel.Validator
}

// openGate finds the definition of the kind and prepares its version.
func openGate(t *testing.T, kind, version string) gate {
	t.Helper()
	internal := internalForm(t, definition(t, kind))
	for _, v := range internal.Spec.Versions {
		if v.Name != version {
			continue
		}
		schema := v.Schema
		if schema == nil {
			// The internal form moves what all versions share to the top.
			schema = internal.Spec.Validation
		}
		return newGate(t, schema.OpenAPIV3Schema)
	}
	t.Fatalf("%s has no version %s", kind, version)
	return gate{}
}

func newGate(t *testing.T, props *apiextensions.JSONSchemaProps) gate {
	t.Helper()
	schema, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatalf("making the schema structural: %v", err)
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatalf("making the schema validator: %v", err)
	}
	return gate{schema: schema, validator: validator, cel: cel.NewValidator(schema, true, celconfig.PerCallLimit)}
}

// admit changes the object as the API server would and returns what it would
// object to. Like it, admit skips CEL when a value is of the wrong type or size.
func (g gate) admit(object map[string]any) field.ErrorList {
	pruning.Prune(object, g.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, g.schema)
	defaulting.Default(object, g.schema)
	errs := validation.ValidateCustomResource(nil, object, g.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, g.schema, object)...)
	if blocksCEL(errs) {
		return errs
	}
	broken, _ := g.cel.Validate(context.Background(), nil, g.schema, object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, broken...)
}

func blocksCEL(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// expect admits a manifest and compares the outcome: an empty want means it must
// be accepted, otherwise want must appear in what the user is told.
func (g gate) expect(t *testing.T, manifest, want string) map[string]any {
	t.Helper()
	object := parse(t, manifest)
	err := g.admit(object).ToAggregate()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Errorf("accepted, want refused with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("refused with %v\nwant %q", err, want)
	}
	return object
}

// parse reads YAML as the API server does: whole numbers stay whole.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	doc, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("reading the test's YAML: %v\n%s", err, text)
	}
	object := map[string]any{}
	if err := json.Unmarshal(doc, &object); err != nil {
		t.Fatalf("reading the test's YAML: %v\n%s", err, text)
	}
	return object
}

func definition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		if crd.Spec.Names.Kind == kind {
			return crd
		}
	}
	t.Fatalf("no definition of %s", kind)
	return nil
}

func internalForm(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil); err != nil {
		t.Fatalf("converting %s: %v", crd.Name, err)
	}
	return out
}

// The API server must take every definition, its CEL rules' types and estimated
// costs included.
func TestTheAPIServerTakesEveryDefinition(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			internal := internalForm(t, crd)
			for _, v := range internal.Spec.Versions {
				if v.Storage {
					internal.Status.StoredVersions = []string{v.Name}
				}
			}
			if errs := crdvalidation.ValidateCustomResourceDefinition(context.Background(), internal); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
		})
	}
}

func manifest(apiVersion, kind, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: test}\nspec:\n%s", apiVersion, kind, indent(spec))
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(text, "\t", "  ")), "\n", "\n  ") + "\n"
}
