package azure

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// runnableBy returns the architectures and generations that a node class has images for: those
// of the images in its status or, while that is empty, those that its family is published for.
func runnableBy(class *v1beta1.AKSNodeClass) runnable {
	var r runnable
	for _, image := range class.Status.Images {
		r.add(image.Requirements)
	}
	if len(class.Status.Images) > 0 {
		return r
	}
	for _, d := range releaseFor(&class.Spec, minorOf(kubernetesVersion(class))).definitions {
		r.add(d.requirements())
	}
	return r
}

func (r *runnable) add(reqs []corev1.NodeSelectorRequirement) {
	r.amd64gen1 = r.amd64gen1 || meets(reqs, sku.AMD64, v1beta1.HyperVGeneration1)
	r.amd64gen2 = r.amd64gen2 || meets(reqs, sku.AMD64, v1beta1.HyperVGeneration2)
	r.arm64gen2 = r.arm64gen2 || meets(reqs, sku.ARM64, v1beta1.HyperVGeneration2)
}

// imageFor returns the first image that a size can boot.
func imageFor(images []v1beta1.NodeImage, s *sku.SKU) (string, bool) {
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
