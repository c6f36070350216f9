package azureemulator

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The public galleries AKS publishes its node images in.
const (
	ubuntuGallery = "AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2"
	linuxGallery  = "AKSAzureLinux-f7c7cda5-1c9a-4bdc-a222-9614c968580b"
)

// image is one image definition. Those with FIPS are in the shared galleries only.
type image struct {
	Gallery, Name string
	Architecture  string // x64 or Arm64
	Generation    string // V1 or V2
}

// definitions are AKS's node images: their names say what they are.
func definitions() []image {
	var list []image
	add := func(gallery string, names ...string) {
		for _, name := range names {
			list = append(list, image{gallery, name, architectureOf(name), generationOf(name)})
		}
	}
	add(ubuntuGallery,
		"2204gen2containerd", "2204containerd", "2204gen2arm64containerd", "2204gen2TLcontainerd", "2204gen2fipsTLcontainerd",
		"2404gen2containerd", "2404containerd", "2404gen2arm64containerd", "2404gen2TLcontainerd",
		"2004gen2fipscontainerd", "2004fipscontainerd")
	add(linuxGallery,
		"V2gen2", "V2", "V2gen2arm64", "V2gen2TL", "V2gen2fips", "V2fips",
		"V3gen2", "V3", "V3gen2arm64", "V3gen2TL", "V3gen2fips", "V3fips", "V3gen2arm64fips")
	return list
}

func architectureOf(name string) string {
	if strings.Contains(name, "arm64") {
		return "Arm64"
	}
	return "x64"
}

func generationOf(name string) string {
	if strings.Contains(name, "gen2") {
		return "V2"
	}
	return "V1"
}

// imageVersions is what a definition has published, oldest first.
type imageVersions struct {
	image
	versions []imageVersion
}

type imageVersion struct {
	name      string
	published time.Time
}

// publishedImages gives every definition the same four weekly versions.
func publishedImages() []imageVersions {
	var list []imageVersions
	for _, d := range definitions() {
		list = append(list, imageVersions{d, []imageVersion{
			weekly(2025, time.September, 21), weekly(2025, time.October, 5),
			weekly(2025, time.October, 19), weekly(2025, time.November, 2),
		}})
	}
	return list
}

// weekly is the version built on a Sunday, called YYYYMM.DD.0; it is published
// two days later.
func weekly(year int, month time.Month, day int) imageVersion {
	built := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	return imageVersion{built.Format("200601.02.0"), built.Add(53 * time.Hour)}
}

var versionName = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// PublishImage adds a version to every definition of a gallery whose name
// matches pattern (* and ? as in a Stockout; empty matches all), published now.
func (s *Server) PublishImage(pattern, version string) error {
	if !versionName.MatchString(version) {
		return fmt.Errorf("publishing image version %q: a version is three numbers with dots", version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	published := 0
	for i := range s.images {
		if pattern == "" || matchesSize(pattern, s.images[i].Name) {
			s.images[i].versions = append(s.images[i].versions, imageVersion{version, time.Now().UTC()})
			published++
		}
	}
	if published == 0 {
		return fmt.Errorf("publishing image version %s: no definition matches %q", version, pattern)
	}
	return nil
}

// RemoveImage takes a version away from all definitions.
func (s *Server) RemoveImage(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.images {
		s.images[i].versions = slices.DeleteFunc(s.images[i].versions, func(v imageVersion) bool { return v.name == version })
	}
}

// definition finds a public image definition and its versions. Callers hold mu.
func (s *Server) definition(gallery, name string) (imageVersions, bool) {
	for _, d := range s.images {
		if strings.EqualFold(d.Gallery, gallery) && strings.EqualFold(d.Name, name) && !strings.Contains(d.Name, "fips") {
			return d, true
		}
	}
	return imageVersions{}, false
}

// imageByID finds the definition of a community image id,
// /CommunityGalleries/<gallery>/images/<name>/versions/<version>, if that
// version of it exists. Without a version, or with "latest", the newest is meant.
func (s *Server) imageByID(id string) (image, bool) {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 4 && len(segments) != 6 || !strings.EqualFold(segments[0], "CommunityGalleries") || !strings.EqualFold(segments[2], "images") {
		return image{}, false
	}
	d, found := s.definition(segments[1], segments[3])
	if !found || len(segments) == 4 {
		return d.image, found
	}
	for _, v := range d.versions {
		if v.name == segments[5] {
			return d.image, true
		}
	}
	return d.image, strings.EqualFold(segments[5], "latest")
}

func (s *Server) listImageVersions(r *request) (reply, error) {
	if err := s.checkLocation(r.params["location"]); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, found := s.definition(r.params["gallery"], r.params["image"])
	if !found {
		return reply{}, galleryNotFound(r)
	}
	values := []any{}
	for _, v := range d.versions {
		values = append(values, s.versionView(d.image, v))
	}
	return ok(map[string]any{"value": values})
}

func (s *Server) getImageVersion(r *request) (reply, error) {
	if err := s.checkLocation(r.params["location"]); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, _ := s.definition(r.params["gallery"], r.params["image"])
	for _, v := range d.versions {
		if v.name == r.params["version"] {
			return ok(s.versionView(d.image, v))
		}
	}
	return reply{}, galleryNotFound(r)
}

func galleryNotFound(r *request) *Error {
	return refuse(http.StatusNotFound, "ResourceNotFound", "The community gallery image '%s/%s' was not found in location '%s'.", r.params["gallery"], r.params["image"], r.params["location"])
}

func (s *Server) versionView(d image, v imageVersion) any {
	return map[string]any{
		"name": v.name, "location": s.options.Location, "type": "Microsoft.Compute/Locations/CommunityGalleries/Images/Versions",
		"identifier": map[string]string{"uniqueId": "/CommunityGalleries/" + d.Gallery + "/Images/" + d.Name + "/Versions/" + v.name},
		"properties": map[string]any{
			"publishedDate": stamp(v.published), "endOfLifeDate": stamp(v.published.AddDate(1, 0, 0)), "excludeFromLatest": false,
			"storageProfile": map[string]any{"osDiskImage": map[string]any{"diskSizeGB": 30, "hostCaching": "ReadWrite"}},
		},
	}
}
