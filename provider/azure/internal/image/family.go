// SPDX-License-Identifier: Apache-2.0

package image

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// Operating systems of AKS's node images, in AKS's spelling.
const (
	osUbuntu     = "AKSUbuntu"
	osAzureLinux = "AKSAzureLinux"
)

// A definition is a series of image versions: an operating system for one architecture and
// generation.
type definition struct{ os, name string }

// arch returns the architecture. arm64 and gen2 in the name of a definition say what it is for; a
// name without them is of amd64 and generation 1.
func (d definition) arch() string {
	if strings.Contains(d.name, "arm64") {
		return sku.ARM64
	}
	return sku.AMD64
}

func (d definition) generation() string {
	if strings.Contains(d.name, "gen2") {
		return v1beta1.HyperVGeneration2
	}
	return v1beta1.HyperVGeneration1
}

func (d definition) requirements() []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{d.arch()}},
		{Key: v1beta1.LabelSKUHyperVGeneration, Operator: corev1.NodeSelectorOpIn, Values: []string{d.generation()}},
	}
}

// A release is the operating system release of an image family for one Kubernetes version. One
// without definitions does not exist.
type release struct {
	Label       string // value of os-sku-effective
	definitions []definition
}

func (r release) names() string {
	var names []string
	for _, d := range r.definitions {
		names = append(names, d.name)
	}
	return strings.Join(names, ", ")
}

// editions are the images of one release of an operating system by feature, preferred ones
// first: generation 2 before 1. Trusted launch and FIPS exist for few combinations, and not for
// every release.
type editions struct {
	os, label                         string
	plain, trusted, fips, fipsTrusted []string
}

func ubuntu2004() editions { // AKS publishes it for FIPS only
	return editions{os: osUbuntu, label: "Ubuntu", fips: []string{"2004gen2fipscontainerd", "2004fipscontainerd"}}
}

func ubuntu2204() editions {
	return editions{
		os: osUbuntu, label: "Ubuntu2204",
		plain:       []string{"2204gen2containerd", "2204containerd", "2204gen2arm64containerd"},
		trusted:     []string{"2204gen2TLcontainerd"},
		fipsTrusted: []string{"2204gen2fipsTLcontainerd"},
	}
}

func ubuntu2404() editions {
	return editions{
		os: osUbuntu, label: "Ubuntu2404",
		plain:   []string{"2404gen2containerd", "2404containerd", "2404gen2arm64containerd"},
		trusted: []string{"2404gen2TLcontainerd"},
	}
}

func azureLinux2() editions {
	return editions{
		os: osAzureLinux, label: "AzureLinux2",
		plain: []string{"V2gen2", "V2", "V2gen2arm64"}, trusted: []string{"V2gen2TL"}, fips: []string{"V2gen2fips", "V2fips"},
	}
}

func azureLinux3() editions {
	return editions{
		os: osAzureLinux, label: "AzureLinux3",
		plain: []string{"V3gen2", "V3", "V3gen2arm64"}, trusted: []string{"V3gen2TL"}, fips: []string{"V3gen2fips", "V3fips", "V3gen2arm64fips"},
	}
}

// FamilyOf returns the family of a node class; Ubuntu if it names none.
func FamilyOf(spec *v1beta1.AKSNodeClassSpec) v1beta1.ImageFamily {
	if spec.ImageFamily == nil || *spec.ImageFamily == "" {
		return v1beta1.ImageFamilyUbuntu
	}
	return *spec.ImageFamily
}

// ReleaseFor resolves an image family.
func ReleaseFor(spec *v1beta1.AKSNodeClassSpec, minor int) release {
	return editionsOf(spec, minor).release(spec.UsesTrustedLaunch(), spec.FIPS())
}

// editionsOf follows AKS's defaults where the family does not name the release. With FIPS,
// Ubuntu is 20.04, and with trusted launch 22.04, whatever the Kubernetes version.
func editionsOf(spec *v1beta1.AKSNodeClassSpec, minor int) editions {
	trusted := spec.UsesTrustedLaunch()
	switch family := FamilyOf(spec); {
	case family == v1beta1.ImageFamilyAzureLinux && minor >= 32:
		return azureLinux3()
	case family == v1beta1.ImageFamilyAzureLinux:
		return azureLinux2()
	case family == v1beta1.ImageFamilyUbuntu2404:
		return ubuntu2404()
	case family == v1beta1.ImageFamilyUbuntu && spec.FIPS() && !trusted:
		return ubuntu2004()
	case family == v1beta1.ImageFamilyUbuntu && !spec.FIPS() && !trusted && minor >= 34:
		return ubuntu2404()
	}
	return ubuntu2204()
}

func (e editions) release(trusted, fips bool) release {
	names := e.plain
	switch {
	case trusted && fips:
		names = e.fipsTrusted
	case trusted:
		names = e.trusted
	case fips:
		names = e.fips
	}
	r := release{Label: e.label}
	for _, name := range names {
		r.definitions = append(r.definitions, definition{e.os, name})
	}
	return r
}
