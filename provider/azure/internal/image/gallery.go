// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/internal/panics"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
	"github.com/karve-dev/karve/provider/azure/internal/cached"
)

// A gallery is where images are published.
type gallery interface {
	// versions lists the versions of a definition; one that does not exist has none.
	versions(ctx context.Context, d definition) ([]imageVersion, error)
	// listsAll reports whether versions that are not listed do not exist.
	listsAll() bool
	// id returns the resource ID of a version.
	id(d definition, version string) string
}

// A Config says where images come from.
type Config struct {
	ARM                    *arm.Client
	Decoder                *armlist.Decoder
	Subscription, Location string
	Shared                 SharedGallery
	Every                  time.Duration // how long a list is cached
	Now                    func() time.Time
	Panics                 *panics.Reporter
}

func New(c Config) *Images {
	list := &Images{every: c.Every, now: c.Now, panics: c.Panics, location: c.Location, hasFIPS: c.Shared.used(), known: map[definition]versionList{}}
	list.gallery = communityGallery{arm: c.ARM, decoder: c.Decoder, subscription: c.Subscription, location: c.Location}
	if c.Shared.used() {
		list.gallery = &sharedGallery{
			arm: c.ARM, subscription: c.Subscription, location: c.Location, owner: c.Shared.SubscriptionID, now: c.Now, seen: map[definition][]imageVersion{},
		}
	}
	return list
}

// An Images is a gallery whose lists are cached.
type Images struct {
	gallery
	every time.Duration // how long a list is cached
	now   func() time.Time
	// location is the region, for messages; hasFIPS says that the gallery has FIPS images.
	location string
	hasFIPS  bool

	reading cached.Reads // by definition
	panics  *panics.Reporter

	mu    sync.Mutex
	known map[definition]versionList
	// missing is when Azure refused launches because their image does not exist, by the image's
	// lower-case definition and version.
	missing map[string]missingReports
	// backoff delays all reads after a failure, for every definition: galleries fail as a whole,
	// and there are many node classes.
	backoff cached.Backoff
}

func (s *Images) versions(ctx context.Context, d definition) ([]imageVersion, error) {
	s.mu.Lock()
	known, ok := s.known[d]
	backoff := s.backoff
	s.mu.Unlock()
	if ok && s.now().Sub(known.read) < s.cacheTime(known.versions) {
		return known.versions, nil
	}
	if s.now().Before(backoff.Until) {
		return nil, backoff.Err
	}
	return cached.Once(ctx, &s.reading, fmt.Sprint(d), s.panics, func(ctx context.Context) ([]imageVersion, error) { return s.read(ctx, d) })
}

// emptyFor is how long an empty list is cached: images that AKS has published for years do not
// disappear within an hour.
const emptyFor = time.Minute

// cacheTime returns how long a list is cached.
func (s *Images) cacheTime(versions []imageVersion) time.Duration {
	if len(versions) == 0 {
		return min(s.every, emptyFor)
	}
	return s.every
}

func (s *Images) read(ctx context.Context, d definition) ([]imageVersion, error) {
	versions, err := s.gallery.versions(ctx, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.backoff.Failed(err, s.now())
		return nil, err
	}
	s.known[d], s.backoff = versionList{versions, s.now()}, cached.Backoff{}
	return versions, nil
}

// versionList is a list of versions, and when it was read.
type versionList struct {
	versions []imageVersion
	read     time.Time
}

// missingReports is when Azure first and last refused a launch because an image does not exist.
type missingReports struct{ first, last time.Time }

// An image seems missing once two refusals are at least missingAfter apart, and for missingFor
// after the last one: it is used only if a list contains it. Where no list can contain it, the
// refusals are the only evidence: they must be missingUnlistedAfter apart.
const (
	missingFor           = time.Hour
	missingAfter         = time.Minute
	missingUnlistedAfter = 5 * time.Minute
)

// ReportMissing records that a launch was refused because this image does not exist, and drops the
// cached list of its definition.
func (s *Images) ReportMissing(id string) {
	name, version := Parts(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing == nil {
		s.missing = map[string]missingReports{}
	}
	now := s.now()
	maps.DeleteFunc(s.missing, func(_ string, d missingReports) bool { return now.Sub(d.last) >= missingFor })
	d, known := s.missing[imageKey(name, version)]
	if d.last = now; !known {
		d.first = now
	}
	s.missing[imageKey(name, version)] = d
	maps.DeleteFunc(s.known, func(d definition, _ versionList) bool { return strings.EqualFold(d.name, name) })
}

// ReportLaunched records that a virtual machine was created from this image.
func (s *Images) ReportLaunched(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.missing) > 0 {
		delete(s.missing, imageKey(Parts(id)))
	}
}

// SeemsMissing reports whether launches were refused recently because this version does not exist:
// more than once, since a single refusal may come from one faulty server.
func (s *Images) SeemsMissing(definition, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, reported := s.missing[imageKey(definition, version)]
	after := missingAfter
	if !s.listsAll() {
		after = missingUnlistedAfter
	}
	return reported && d.last.Sub(d.first) >= after && s.now().Sub(d.last) < missingFor
}

// withoutMissing removes the versions that seem missing and are not in the gallery's last list.
func (s *Images) withoutMissing(d definition, versions []imageVersion) []imageVersion {
	var left []imageVersion
	for _, b := range versions {
		if !b.unlisted || !s.SeemsMissing(d.name, b.version) {
			left = append(left, b)
		}
	}
	return left
}

func imageKey(definition, version string) string {
	return strings.ToLower(definition + "/" + version)
}

// communityGallery is the gallery that AKS publishes for all customers.
type communityGallery struct {
	arm                    *arm.Client
	decoder                *armlist.Decoder
	subscription, location string
}

// galleryVersion is the API version of the SDK's client for galleries.
const galleryVersion = "2025-12-03"

// publicName returns the public name of a community gallery.
func publicName(os string) string {
	if os == osAzureLinux {
		return "AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b"
	}
	return "AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2"
}

func (communityGallery) listsAll() bool { return true }

func (communityGallery) id(d definition, version string) string {
	return fmt.Sprintf("/CommunityGalleries/%s/images/%s/versions/%s", publicName(d.os), d.name, version)
}

func (g communityGallery) versions(ctx context.Context, d definition) ([]imageVersion, error) {
	link := runtime.JoinPaths(g.arm.Endpoint(), "subscriptions", url.PathEscape(g.subscription),
		"providers/Microsoft.Compute/locations", url.PathEscape(g.location),
		"communityGalleries", url.PathEscape(publicName(d.os)), "images", url.PathEscape(d.name), "versions") + "?api-version=" + galleryVersion
	list, _, err := armlist.All[armcompute.CommunityGalleryImageVersion](ctx, g.arm, g.decoder, link)
	if err != nil {
		if r := armerr.Classify(err); r.Kind == armerr.NotFound || r.Kind == armerr.ImageMissing {
			return nil, nil
		}
		return nil, err
	}
	var versions []imageVersion
	for _, v := range list {
		if armtext.Of(v.Name) != "" && v.Properties != nil {
			versions = append(versions, imageVersionOf(v))
		}
	}
	return versions, nil
}

func imageVersionOf(v *armcompute.CommunityGalleryImageVersion) imageVersion {
	b := imageVersion{version: armtext.Of(v.Name)}
	if published := v.Properties.PublishedDate; published != nil {
		b.published = *published
	}
	b.withdrawn = v.Properties.ExcludeFromLatest != nil && *v.Properties.ExcludeFromLatest
	return b
}
