package azure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// ErrFIPSNeedsSharedGallery reports that FIPS images are not in the community galleries, which
// are used unless a shared gallery is configured.
var ErrFIPSNeedsSharedGallery = errors.New("FIPS images are published in AKS's shared galleries only: set use-sig, sig-subscription-id and sig-access-token-server-url, or remove fipsMode from the class")

// ErrNoImages reports that the galleries hold no image for a node class.
var ErrNoImages = errors.New("no images found")

// Images returns one image of every definition that the node class can use, in the version it
// wants, preferred definitions first. Definitions without such a version are left out;
// ErrNoImages means that none is left.
func (p *Provider) Images(ctx context.Context, wish ImageWish) ([]v1beta1.NodeImage, error) {
	if wish.Spec.FIPS() && !p.opts.SharedGallery.used() {
		return nil, ErrFIPSNeedsSharedGallery
	}
	wanted := releaseFor(wish.Spec, minorOf(wish.Kubernetes))
	var images []v1beta1.NodeImage
	for _, d := range wanted.definitions {
		version, err := p.version(ctx, d, wish)
		if err != nil {
			return nil, armerr.Wrap(err, "listing versions of image %s", d.name)
		}
		if version != "" {
			images = append(images, v1beta1.NodeImage{ID: p.images.id(d, version), Requirements: d.requirements()})
		}
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoImages, p.nothing(wanted, wish))
	}
	return images, nil
}

// version returns the version of one definition that the node class wants; empty when there is
// none. When a gallery lists no version at all, the class keeps the version it has, until Azure
// refuses launches for it.
func (p *Provider) version(ctx context.Context, d imageDefinition, wish ImageWish) (string, error) {
	had := wish.had(d)
	holds, gone := wish.Hold && wish.Version == "" && had != "", p.images.doubtful(d.name, had)
	if holds && !gone {
		return had, nil
	}
	known, err := p.images.builds(ctx, d)
	if err != nil {
		return "", err
	}
	builds := p.images.credible(d, known)
	gone = gone && !slices.ContainsFunc(builds, func(b build) bool { return b.version == had })
	if holds && !gone {
		return had, nil // it still exists
	}
	version := wish.choose(builds, p.opts.Now())
	switch {
	case version != "":
		return version, nil
	case len(known) == 0 && had != "" && !gone:
		if wish.Version != "" && wish.Version != had {
			return "", fmt.Errorf("%s has no version in %s at present", d.name, p.opts.Location)
		}
		return had, nil
	case len(known) == 0:
		return "", nil
	case wish.Version != "" && !p.images.listsAll() && !p.images.doubtful(d.name, wish.Version):
		return wish.Version, nil // the list may lack it; a launch will tell
	case wish.MinAge > 0 && wish.Version == "" && !gone:
		return had, nil
	}
	return "", nil
}

// nothing describes what was searched for without result.
func (p *Provider) nothing(wanted release, wish ImageWish) string {
	names := wanted.names()
	switch {
	case names == "":
		return fmt.Sprintf("AKS has no image of %s with this fipsMode and trusted launch: choose another imageFamily", imageFamily(wish.Spec))
	case wish.Version != "":
		return fmt.Sprintf("none of %s has version %s in %s: correct or remove the annotation %s", names, wish.Version, p.opts.Location, AnnotationImageVersion)
	case wish.MinAge > 0:
		return fmt.Sprintf("none of %s has a version in %s that is %s old: lower the annotation %s", names, p.opts.Location, days(wish.MinAge), AnnotationImageMinAge)
	}
	return fmt.Sprintf("none of %s has a version in %s", names, p.opts.Location)
}

// imageNamed returns the definition and version in an image's ID, in a community or a shared
// gallery: …/images/<definition>/versions/<version>; empty for other IDs.
func imageNamed(id string) (definition, version string) {
	parts := strings.Split(id, "/")
	n := len(parts)
	if n < 4 || !strings.EqualFold(parts[n-4], "images") || !strings.EqualFold(parts[n-2], "versions") {
		return "", ""
	}
	return parts[n-3], parts[n-1]
}
