package azure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
	corev1 "k8s.io/api/core/v1"

	"github.com/karve-dev/karve/api/v1beta1"
)

// Public names of the community galleries AKS publishes its images in.
const (
	galleryUbuntu     = "AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2"
	galleryAzureLinux = "AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b"
)

// An imageDefinition is one line of images in a gallery and what can start them.
type imageDefinition struct {
	gallery, name string
	arch          string
	gen2          bool
}

// A release is what an image family means for one Kubernetes version.
type release struct {
	label       string // value of os-sku-effective
	definitions []imageDefinition
}

// ErrFIPSNeedsSharedGallery reports that FIPS images are not in the community
// galleries, which are the only ones this version reads.
var ErrFIPSNeedsSharedGallery = errors.New("FIPS images are published in AKS's shared galleries only, which karve does not read yet: remove fipsMode or set it to Disabled")

// ErrNoImages reports that the galleries hold no image for a class.
var ErrNoImages = errors.New("no images found")

// releaseFor resolves an image family. Preferred definitions come first:
// generation 2 before 1.
func releaseFor(spec *v1beta1.AKSNodeClassSpec, minor int) release {
	trusted := spec.UsesTrustedLaunch()
	switch family := imageFamily(spec); {
	case family == v1beta1.ImageFamilyAzureLinux && minor >= 32:
		return azureLinux("V3", "AzureLinux3", trusted)
	case family == v1beta1.ImageFamilyAzureLinux:
		return azureLinux("V2", "AzureLinux2", trusted)
	case family == v1beta1.ImageFamilyUbuntu2404, family == v1beta1.ImageFamilyUbuntu && !trusted && minor >= 34:
		return ubuntu("2404", "Ubuntu2404", trusted)
	default:
		return ubuntu("2204", "Ubuntu2204", trusted)
	}
}

func ubuntu(number, label string, trusted bool) release {
	return definitions(galleryUbuntu, label, trusted, number+"gen2TLcontainerd", number+"gen2containerd", number+"containerd", number+"gen2arm64containerd")
}

func azureLinux(version, label string, trusted bool) release {
	return definitions(galleryAzureLinux, label, trusted, version+"gen2TL", version+"gen2", version, version+"gen2arm64")
}

// definitions makes a release of the names of its images. Trusted launch has one
// image, for amd64 of generation 2.
func definitions(gallery, label string, trusted bool, trustedGen2, gen2, gen1, arm64 string) release {
	if trusted {
		return release{label: label, definitions: []imageDefinition{{gallery, trustedGen2, archAMD64, true}}}
	}
	return release{label: label, definitions: []imageDefinition{
		{gallery, gen2, archAMD64, true},
		{gallery, gen1, archAMD64, false},
		{gallery, arm64, archARM64, true},
	}}
}

func (d imageDefinition) generation() string {
	if d.gen2 {
		return v1beta1.HyperVGeneration2
	}
	return v1beta1.HyperVGeneration1
}

func (d imageDefinition) requirements() []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{d.arch}},
		{Key: v1beta1.LabelSKUHyperVGeneration, Operator: corev1.NodeSelectorOpIn, Values: []string{d.generation()}},
	}
}

func (d imageDefinition) id(version string) string {
	return fmt.Sprintf("/CommunityGalleries/%s/images/%s/versions/%s", d.gallery, d.name, version)
}

// Images returns the newest image of every definition the class can use with a
// Kubernetes version, preferred ones first. Definitions without a version are
// left out; ErrNoImages says that none is left.
func (p *Provider) Images(ctx context.Context, spec *v1beta1.AKSNodeClassSpec, kubernetesVersion string) ([]v1beta1.NodeImage, error) {
	if spec.FIPS() {
		return nil, ErrFIPSNeedsSharedGallery
	}
	var images []v1beta1.NodeImage
	for _, d := range releaseFor(spec, minorOf(kubernetesVersion)).definitions {
		version, err := p.images.newest(ctx, d)
		if err != nil {
			return nil, wrap(err, "listing versions of image %s", d.name)
		}
		if version != "" {
			images = append(images, v1beta1.NodeImage{ID: d.id(version), Requirements: d.requirements()})
		}
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w: neither of %s has a version in %s", ErrNoImages, definitionNames(spec, kubernetesVersion), p.opts.Location)
	}
	return images, nil
}

func definitionNames(spec *v1beta1.AKSNodeClassSpec, version string) string {
	var names []string
	for _, d := range releaseFor(spec, minorOf(version)).definitions {
		names = append(names, d.name)
	}
	return strings.Join(names, ", ")
}

// gallery reads and remembers the newest version of image definitions.
type gallery struct {
	client   *armcompute.CommunityGalleryImageVersionsClient
	location string
	every    time.Duration // for which a list is believed: see Options.ImagesEvery
	now      func() time.Time

	mu    sync.Mutex
	known map[imageDefinition]newestVersion
}

type newestVersion struct {
	version string
	read    time.Time
}

func (g *gallery) newest(ctx context.Context, d imageDefinition) (string, error) {
	g.mu.Lock()
	known, ok := g.known[d]
	g.mu.Unlock()
	if ok && g.now().Sub(known.read) < g.every {
		return known.version, nil
	}
	version, err := g.read(ctx, d)
	if err != nil {
		return "", err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known[d] = newestVersion{version, g.now()}
	return version, nil
}

// read returns the version published last; a definition that does not exist has none.
func (g *gallery) read(ctx context.Context, d imageDefinition) (string, error) {
	var newest *armcompute.CommunityGalleryImageVersion
	pager := g.client.NewListPager(g.location, d.gallery, d.name, nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			if r := classify(err); r.kind == notFound || r.kind == imageMissing {
				return "", nil
			}
			return "", err
		}
		for _, v := range page.Value {
			if offered(v) && later(v, newest) {
				newest = v
			}
		}
	}
	if newest == nil {
		return "", nil
	}
	return text(newest.Name), nil
}

func offered(v *armcompute.CommunityGalleryImageVersion) bool {
	return v != nil && text(v.Name) != "" && v.Properties != nil &&
		(v.Properties.ExcludeFromLatest == nil || !*v.Properties.ExcludeFromLatest)
}

// later orders by date of publication, then by name, so that equal dates do not
// make the choice flicker.
func later(a, b *armcompute.CommunityGalleryImageVersion) bool {
	if b == nil {
		return true
	}
	at, bt := published(a), published(b)
	if !at.Equal(bt) {
		return at.After(bt)
	}
	return text(a.Name) > text(b.Name)
}

func published(v *armcompute.CommunityGalleryImageVersion) time.Time {
	if v.Properties.PublishedDate == nil {
		return time.Time{}
	}
	return *v.Properties.PublishedDate
}

// runnableBy says which machines a class has images for: those of its status,
// or, while that is empty, those its family is published for.
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
	r.amd64gen1 = r.amd64gen1 || meets(reqs, archAMD64, v1beta1.HyperVGeneration1)
	r.amd64gen2 = r.amd64gen2 || meets(reqs, archAMD64, v1beta1.HyperVGeneration2)
	r.arm64gen2 = r.arm64gen2 || meets(reqs, archARM64, v1beta1.HyperVGeneration2)
}

// imageFor picks the first image that a size can start.
func imageFor(images []v1beta1.NodeImage, s *sku) (string, bool) {
	for _, image := range images {
		if s.gen2 && meets(image.Requirements, s.arch, v1beta1.HyperVGeneration2) ||
			s.gen1 && meets(image.Requirements, s.arch, v1beta1.HyperVGeneration1) {
			return image.ID, true
		}
	}
	return "", false
}

// meets reports whether a machine of that architecture and generation may start
// an image with these requirements. A key we do not know is not held against it:
// the class controller wrote them.
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
