// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/karve-dev/karve/api/crds"
)

func TestAllNamesEveryKind(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, crd := range all {
		names = append(names, crd.Name)
	}
	want := []string{
		"aksnodeclasses.karpenter.azure.com",
		"nodepools.karpenter.sh",
		"nodeclaims.karpenter.sh",
		"nodeoverlays.karpenter.sh",
		"capacitybuffers.autoscaling.x-k8s.io",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestAllReturnsObjectsTheCallerMayChange(t *testing.T) {
	first, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range first {
		crd.Spec.Versions = nil
	}
	again, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range again {
		if len(crd.Spec.Versions) == 0 {
			t.Errorf("%s lost its versions to a caller of an earlier call", crd.Name)
		}
	}
}

func TestYAMLHoldsWhatAllReturns(t *testing.T) {
	var out bytes.Buffer
	if err := crds.YAML(&out); err != nil {
		t.Fatal(err)
	}
	want, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Split(out.String(), "---\n")[1:]
	if len(docs) != len(want) {
		t.Fatalf("%d documents, want %d", len(docs), len(want))
	}
	for i, doc := range docs {
		got := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict([]byte(doc), got); err != nil {
			t.Fatalf("reading document %d: %v", i, err)
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("%s (-All +YAML):\n%s", want[i].Name, diff)
		}
		if strings.Contains(doc, "\nstatus:") {
			t.Errorf("%s is printed with a status, which is the API server's", got.Name)
		}
	}
}

func TestAKSNodeClassDefinition(t *testing.T) {
	spec := definition(t, "AKSNodeClass").Spec
	if spec.Conversion != nil && spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("conversion %v, want None", spec.Conversion)
	}
	if diff := cmp.Diff([]string{"aksnc", "aksncs"}, spec.Names.ShortNames); diff != "" {
		t.Errorf("short names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"karpenter", "nap"}, spec.Names.Categories); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
	type version struct {
		Name                            string
		Served, Storage, Deprecated, St bool
	}
	var got []version
	for _, v := range spec.Versions {
		got = append(got, version{v.Name, v.Served, v.Storage, v.Deprecated, v.Subresources != nil && v.Subresources.Status != nil})
		if v.Deprecated && (v.DeprecationWarning == nil || !strings.Contains(*v.DeprecationWarning, "karpenter.azure.com/v1beta1")) {
			t.Errorf("%s is deprecated without saying what to write instead", v.Name)
		}
	}
	want := []version{
		{Name: "v1alpha2", Served: true, Deprecated: true, St: true},
		{Name: "v1beta1", Served: true, Storage: true, St: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// With conversion None the API server relabels objects, so a field that only one
// version knows would be dropped in silence.
func TestBothVersionsHaveOneSchema(t *testing.T) {
	versions := definition(t, "AKSNodeClass").Spec.Versions
	if diff := cmp.Diff(versions[0].Schema, versions[1].Schema); diff != "" {
		t.Errorf("schema (-%s +%s):\n%s", versions[0].Name, versions[1].Name, diff)
	}
}

func TestEveryFieldOfAKSNodeClassIsDescribed(t *testing.T) {
	for _, v := range definition(t, "AKSNodeClass").Spec.Versions {
		for _, part := range []string{"spec", "status"} {
			describedFrom(t, v.Name+"."+part, v.Schema.OpenAPIV3Schema.Properties[part])
		}
	}
}

func describedFrom(t *testing.T, path string, s apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	if s.Description == "" && !strings.HasSuffix(path, "[]") {
		t.Errorf("%s has no description: comment its Go field", path)
	}
	for name, child := range s.Properties {
		describedFrom(t, path+"."+name, child)
	}
	if s.Items != nil && s.Items.Schema != nil {
		describedFrom(t, path+"[]", *s.Items.Schema)
	}
}
