// SPDX-License-Identifier: Apache-2.0

// Package image selects the images that nodes start from: which images AKS has for a node class,
// in which versions the galleries have them, and which version the class wants. It remembers
// images that Azure reported as missing. The class controller decides when newer images are used.
package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
)

// ErrFIPSNeedsSharedGallery reports that FIPS images are not in the community galleries, which
// are used unless a shared gallery is configured.
var ErrFIPSNeedsSharedGallery = errors.New("FIPS images are published in AKS's shared galleries only: set use-sig, sig-subscription-id and sig-access-token-server-url, or remove fipsMode from the class")

// ErrNone reports that the galleries hold no image for a node class.
var ErrNone = errors.New("no images found")

// Pick returns one image of every definition that the node class can use, in the version it
// wants, preferred definitions first. Definitions without such a version are left out; ErrNone
// means that none is left.
func (s *Images) Pick(ctx context.Context, selection Selection) ([]v1beta1.NodeImage, error) {
	if selection.Spec.FIPS() && !s.hasFIPS {
		return nil, ErrFIPSNeedsSharedGallery
	}
	wanted := ReleaseFor(selection.Spec, kubeversion.Minor(selection.Kubernetes))
	var images []v1beta1.NodeImage
	for _, d := range wanted.definitions {
		version, err := s.version(ctx, d, selection)
		if err != nil {
			return nil, armerr.Wrap(err, "listing versions of image %s", d.name)
		}
		if version != "" {
			images = append(images, v1beta1.NodeImage{ID: s.id(d, version), Requirements: d.requirements()})
		}
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNone, s.describeNone(wanted, selection))
	}
	return images, nil
}

// version returns the version of one definition that the node class wants; empty when there is
// none. When a gallery lists no version at all, the class keeps the version it has, until Azure
// refuses launches for it.
func (s *Images) version(ctx context.Context, d definition, selection Selection) (string, error) {
	had := selection.currentVersion(d)
	holds, gone := selection.KeepCurrent && selection.Version == "" && had != "", s.SeemsMissing(d.name, had)
	if holds && !gone {
		return had, nil
	}
	known, err := s.versions(ctx, d)
	if err != nil {
		return "", err
	}
	versions := s.withoutMissing(d, known)
	gone = gone && !slices.ContainsFunc(versions, func(b imageVersion) bool { return b.version == had })
	if holds && !gone {
		return had, nil // it still exists
	}
	version := selection.newest(versions, s.now())
	switch {
	case version != "":
		return version, nil
	case len(known) == 0 && had != "" && !gone:
		if selection.Version != "" && selection.Version != had {
			return "", fmt.Errorf("%s has no version in %s at present", d.name, s.location)
		}
		return had, nil
	case len(known) == 0:
		return "", nil
	case selection.Version != "" && !s.listsAll() && !s.SeemsMissing(d.name, selection.Version):
		return selection.Version, nil // the list may lack it; a launch shows whether it exists
	case selection.MinAge > 0 && selection.Version == "" && !gone:
		return had, nil
	}
	return "", nil
}

// describeNone describes what was searched for without result.
func (s *Images) describeNone(wanted release, selection Selection) string {
	names := wanted.names()
	switch {
	case names == "":
		return fmt.Sprintf("AKS has no image of %s with this fipsMode and trusted launch: choose another imageFamily", FamilyOf(selection.Spec))
	case selection.Version != "":
		return fmt.Sprintf("none of %s has version %s in %s: correct or remove the annotation %s", names, selection.Version, s.location, AnnotationVersion)
	case selection.MinAge > 0:
		return fmt.Sprintf("none of %s has a version in %s that is %s old: lower the annotation %s", names, s.location, days(selection.MinAge), AnnotationMinAge)
	}
	return fmt.Sprintf("none of %s has a version in %s", names, s.location)
}

// Parts returns the definition and version in an image's ID, in a community or a shared
// gallery: …/images/<definition>/versions/<version>; empty for other IDs.
func Parts(id string) (definition, version string) {
	parts := strings.Split(id, "/")
	n := len(parts)
	if n < 4 || !strings.EqualFold(parts[n-4], "images") || !strings.EqualFold(parts[n-2], "versions") {
		return "", ""
	}
	return parts[n-3], parts[n-1]
}

// Version returns the version in an image's ID; empty when there is none.
func Version(id string) string {
	const versions = "/versions/"
	i := strings.LastIndex(strings.ToLower(id), versions)
	if i < 0 {
		return ""
	}
	return id[i+len(versions):]
}
