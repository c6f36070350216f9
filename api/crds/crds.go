// SPDX-License-Identifier: Apache-2.0

// Package crds gives out the CustomResourceDefinitions karve works with: its
// own AKSNodeClass, and those of karpenter.sh as the pinned upstream module
// publishes them, with the label rules of AKS added and with bounds on lengths of
// time and amounts that no client could read.
//
// It keeps no copy of upstream's files and installs nothing. Every call returns
// fresh objects, which the caller may change.
package crds

import (
	_ "embed"
	"fmt"
	"io"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/yaml"
)

//go:embed karpenter.azure.com_aksnodeclasses.yaml
var aksNodeClassYAML []byte

// All returns AKSNodeClass, NodePool, NodeClaim, NodeOverlay and CapacityBuffer,
// in that order. It fails only when the pinned upstream module no longer has
// the shape that the added rules were written for.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	sources := []struct {
		kind    string
		yaml    []byte
		labels  []labelField
		spans   [][]string
		amounts [][]string
	}{
		{kind: "AKSNodeClass", yaml: aksNodeClassYAML},
		{kind: "NodePool", yaml: apis.NodePoolCRD, labels: nodePoolLabels(), spans: nodePoolSpans(), amounts: nodePoolAmounts()},
		{kind: "NodeClaim", yaml: apis.NodeClaimCRD, labels: nodeClaimLabels(), spans: nodeClaimSpans(), amounts: nodeClaimAmounts()},
		{kind: "NodeOverlay", yaml: apis.NodeOverlayCRD},
		{kind: "CapacityBuffer", yaml: apis.CapacityBufferCRD},
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, s := range sources {
		crd, err := decode(s.yaml)
		if err != nil {
			return nil, fmt.Errorf("reading the %s definition: %w", s.kind, err)
		}
		if err := restrictLabels(crd, s.labels); err != nil {
			return nil, fmt.Errorf("adding label rules to the %s definition: %w", s.kind, err)
		}
		if err := keepReadable(crd, s.spans, s.amounts); err != nil {
			return nil, fmt.Errorf("bounding the %s definition: %w", s.kind, err)
		}
		all = append(all, crd)
	}
	return all, nil
}

// YAML writes all definitions as one stream of YAML documents, as kubectl apply
// takes it.
func YAML(w io.Writer) error {
	all, err := All()
	if err != nil {
		return err
	}
	for _, crd := range all {
		doc, err := encode(crd)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", crd.Name, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", doc); err != nil {
			return fmt.Errorf("writing %s: %w", crd.Name, err)
		}
	}
	return nil
}

func decode(doc []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(doc, crd); err != nil {
		return nil, err
	}
	return crd, nil
}

// encode leaves the status out: it belongs to the API server, and an empty one
// in a manifest shows up as a difference for ever.
func encode(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	return yaml.Marshal(object)
}
