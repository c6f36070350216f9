// SPDX-License-Identifier: Apache-2.0

package image

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// Bootable says for which architectures and generations the node class has an image.
type Bootable struct{ amd64gen1, amd64gen2, arm64gen2 bool }

func (r Bootable) Boots(s *sku.SKU) bool {
	if s.Arch == sku.ARM64 {
		return s.Gen2 && r.arm64gen2
	}
	return s.Gen1 && r.amd64gen1 || s.Gen2 && r.amd64gen2
}

// BootableBy returns the architectures and generations that a node class has images for: those
// of the images in its status or, while that is empty, those that its family is published for.
func BootableBy(class *v1beta1.AKSNodeClass) Bootable {
	var r Bootable
	for _, image := range class.Status.Images {
		r.add(image.Requirements)
	}
	if len(class.Status.Images) > 0 {
		return r
	}
	for _, d := range ReleaseFor(&class.Spec, kubeversion.Minor(kubeversion.Of(class))).definitions {
		r.add(d.requirements())
	}
	return r
}

func (r *Bootable) add(reqs []corev1.NodeSelectorRequirement) {
	r.amd64gen1 = r.amd64gen1 || meets(reqs, sku.AMD64, v1beta1.HyperVGeneration1)
	r.amd64gen2 = r.amd64gen2 || meets(reqs, sku.AMD64, v1beta1.HyperVGeneration2)
	r.arm64gen2 = r.arm64gen2 || meets(reqs, sku.ARM64, v1beta1.HyperVGeneration2)
}

// For returns the first image that a size can boot.
func For(images []v1beta1.NodeImage, s *sku.SKU) (string, bool) {
	for _, image := range images {
		if s.Gen2 && meets(image.Requirements, s.Arch, v1beta1.HyperVGeneration2) ||
			s.Gen1 && meets(image.Requirements, s.Arch, v1beta1.HyperVGeneration1) {
			return image.ID, true
		}
	}
	return "", false
}

// meets reports whether a virtual machine of that architecture and generation may boot an image
// with these requirements. Unknown keys are ignored: the class controller wrote them.
func meets(reqs []corev1.NodeSelectorRequirement, arch, generation string) bool {
	for _, req := range reqs {
		value := ""
		switch req.Key {
		case corev1.LabelArchStable:
			value = arch
		case v1beta1.LabelSKUHyperVGeneration:
			value = generation
		default:
			continue
		}
		if req.Operator == corev1.NodeSelectorOpIn && !slices.Contains(req.Values, value) {
			return false
		}
	}
	return true
}
