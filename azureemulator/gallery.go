// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/azureemulator/catalog"
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

// galleries have AKS's node images, under their public names and under those that AKS shares
// with single customers.
type galleries struct {
	definitions []imageVersions
	sub         *subscription
	clock       *clock
}

// newGalleries gives every definition the same four weekly versions.
func newGalleries(sub *subscription, c *clock) *galleries {
	g := &galleries{sub: sub, clock: c}
	for _, d := range definitions() {
		g.definitions = append(g.definitions, imageVersions{d, []imageVersion{
			weekly(2025, time.September, 21), weekly(2025, time.October, 5),
			weekly(2025, time.October, 19), weekly(2025, time.November, 2),
		}})
	}
	return g
}

func (g *galleries) routes() []route {
	const versions = inLocation + "/communitygalleries/{gallery}/images/{image}/versions"
	return []route{
		azure("GET", versions, "CommunityGalleryImageVersions.List", reads, g.listImageVersions),
		azure("GET", versions+"/{version}", "CommunityGalleryImageVersions.Get", reads, g.getImageVersion),
		azure("GET", inSubscription+"/providers/microsoft.containerservice/locations/{location}/nodeimageversions", "NodeImageVersions.List", reads, g.listNodeImages),
	}
}

// weekly is the version built on a Sunday, called YYYYMM.DD.0; it is published
// two days later.
func weekly(year int, month time.Month, day int) imageVersion {
	built := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	return imageVersion{built.Format("200601.02.0"), built.Add(53 * time.Hour)}
}

var versionName = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// publish adds a version to every definition of a gallery whose name
// matches pattern (* and ? as in a Stockout; empty matches all), published now.
func (g *galleries) publish(pattern, version string) error {
	if !versionName.MatchString(version) {
		return fmt.Errorf("publishing image version %q: a version is three numbers with dots", version)
	}
	g.clock.Lock()
	defer g.clock.Unlock()
	published := 0
	for i := range g.definitions {
		if pattern == "" || matchesSize(pattern, g.definitions[i].Name) {
			g.definitions[i].versions = append(g.definitions[i].versions, imageVersion{version, time.Now().UTC()})
			published++
		}
	}
	if published == 0 {
		return fmt.Errorf("publishing image version %s: no definition matches %q", version, pattern)
	}
	return nil
}

// remove takes a version away from all definitions.
func (g *galleries) remove(version string) {
	g.clock.Lock()
	defer g.clock.Unlock()
	for i := range g.definitions {
		g.definitions[i].versions = slices.DeleteFunc(g.definitions[i].versions, func(v imageVersion) bool { return v.name == version })
	}
}

// definition finds a public image definition and its versions. Callers hold the lock.
func (g *galleries) definition(gallery, name string) (imageVersions, bool) {
	for _, d := range g.definitions {
		if strings.EqualFold(d.Gallery, gallery) && strings.EqualFold(d.Name, name) && !strings.Contains(d.Name, "fips") {
			return d, true
		}
	}
	return imageVersions{}, false
}

// imageByID finds the definition of a community image id,
// /CommunityGalleries/<gallery>/images/<name>/versions/<version>, if that
// version of it exists. Without a version, or with "latest", the newest is meant.
func (g *galleries) imageByID(id string) (image, bool) {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 4 && len(segments) != 6 || !strings.EqualFold(segments[0], "CommunityGalleries") || !strings.EqualFold(segments[2], "images") {
		return image{}, false
	}
	d, found := g.definition(segments[1], segments[3])
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

func (g *galleries) listImageVersions(r *request) (reply, error) {
	if err := g.sub.checkLocation(r.params["location"]); err != nil {
		return reply{}, err
	}
	g.clock.Lock()
	defer g.clock.Unlock()
	d, found := g.definition(r.params["gallery"], r.params["image"])
	if !found {
		return reply{}, galleryNotFound(r)
	}
	values := []any{}
	for _, v := range d.versions {
		values = append(values, g.versionView(d.image, v))
	}
	return ok(map[string]any{"value": values})
}

func (g *galleries) getImageVersion(r *request) (reply, error) {
	if err := g.sub.checkLocation(r.params["location"]); err != nil {
		return reply{}, err
	}
	g.clock.Lock()
	defer g.clock.Unlock()
	d, _ := g.definition(r.params["gallery"], r.params["image"])
	for _, v := range d.versions {
		if v.name == r.params["version"] {
			return ok(g.versionView(d.image, v))
		}
	}
	return reply{}, galleryNotFound(r)
}

func galleryNotFound(r *request) *Error {
	return refuse(http.StatusNotFound, "ResourceNotFound", "The community gallery image '%s/%s' was not found in location '%s'.", r.params["gallery"], r.params["image"], r.params["location"])
}

func (g *galleries) versionView(d image, v imageVersion) any {
	return map[string]any{
		"name": v.name, "location": g.sub.location, "type": "Microsoft.Compute/Locations/CommunityGalleries/Images/Versions",
		"identifier": map[string]string{"uniqueId": "/CommunityGalleries/" + d.Gallery + "/Images/" + d.Name + "/Versions/" + v.name},
		"properties": map[string]any{
			"publishedDate": stamp(v.published), "endOfLifeDate": stamp(v.published.AddDate(1, 0, 0)), "excludeFromLatest": false,
			"storageProfile": map[string]any{"osDiskImage": map[string]any{"diskSizeGB": 30, "hostCaching": "ReadWrite"}},
		},
	}
}

// checkImage holds an image of AKS's galleries against the size. Other images are
// taken on trust.
func (g *galleries) checkImage(v *vm) error {
	reference := v.spec.Properties.StorageProfile.ImageReference
	if reference.name() == "" {
		return invalidParameter("imageReference", "Required parameter 'imageReference' is missing (null).")
	}
	image, found := g.imageByID(reference.CommunityGalleryImageID)
	if reference.CommunityGalleryImageID == "" {
		if !strings.Contains(strings.ToLower(reference.ID), "/galleries/") {
			return nil
		}
		image, found = g.sharedImage(reference.ID)
	}
	if !found {
		return notFound("GalleryImageNotFound", "The gallery image %s is not available in %s region. Please contact image owner to replicate to this region, or change your requested region.", reference.name(), v.location)
	}
	if image.Architecture != v.size.Architecture {
		return badRequest("BadRequest", "Cannot create a VM of size '%s' because this VM size only supports a CPU Architecture of '%s', but an image or disk given has CPU Architecture '%s'.", v.size.Name, v.size.Architecture, image.Architecture)
	}
	if !strings.Contains(v.size.HyperVGenerations, image.Generation) {
		return badRequest("BadRequest", "The selected VM size '%s' cannot boot Hypervisor Generation '%s'. If this was a Create operation please check that the Hypervisor Generation of the Image matches the Hypervisor Generation of the selected VM Size.", v.size.Name, image.Generation[1:])
	}
	return nil
}

// machineImage is the image asked for, else the newest that AKS takes for the size.
func (g *galleries) machineImage(spec machineSpec, size catalog.Size) string {
	if id, known := g.nodeImage(spec.NodeImageVersion); known {
		return id
	}
	definition := "AKSUbuntu-2204gen2containerd"
	if size.Architecture == "Arm64" {
		definition = "AKSUbuntu-2204gen2arm64containerd"
	}
	if strings.HasPrefix(spec.OperatingSystem.OSSKU, "AzureLinux") {
		definition = strings.NewReplacer("AKSUbuntu-2204gen2", "AKSAzureLinux-V3gen2", "containerd", "").Replace(definition)
	}
	for _, d := range g.definitions {
		if sharedName(d.Gallery)+"-"+d.Name == definition {
			id, _ := g.nodeImage(definition + "-" + d.versions[len(d.versions)-1].name)
			return id
		}
	}
	return ""
}

// nodeImage finds what AKS calls a node image version, such as
// AKSUbuntu-2204gen2containerd-202511.02.0, in its own galleries.
func (g *galleries) nodeImage(fullName string) (id string, known bool) {
	for _, d := range g.definitions {
		for _, v := range d.versions {
			if os := sharedName(d.Gallery); strings.EqualFold(os+"-"+d.Name+"-"+v.name, fullName) {
				return "/subscriptions/" + sharedSubscription + "/resourceGroups/" + strings.Replace(os, "AKS", "AKS-", 1) +
					"/providers/Microsoft.Compute/galleries/" + os + "/images/" + d.Name + "/versions/" + v.name, true
			}
		}
	}
	return "", false
}

// sharedSubscription is AKS's own, with the galleries it shares with single customers.
const sharedSubscription = "109a5e88-712a-48ae-9078-9ca8b3c81345"

// sharedName is what AKS calls a gallery that the public knows by a longer name.
func sharedName(gallery string) string {
	name, _, _ := strings.Cut(gallery, "-")
	return name
}

// sharedImage finds the definition of a shared image id,
// /subscriptions/<AKS's>/resourceGroups/<group>/providers/Microsoft.Compute/galleries/<gallery>/images/<name>/versions/<version>,
// if that version of it exists.
func (g *galleries) sharedImage(id string) (image, bool) {
	segments := strings.Split(strings.Trim(id, "/"), "/")
	if len(segments) != 12 || !strings.EqualFold(segments[6], "galleries") || !strings.EqualFold(segments[8], "images") {
		return image{}, false
	}
	for _, d := range g.definitions {
		if !strings.EqualFold(sharedName(d.Gallery), segments[7]) || !strings.EqualFold(d.Name, segments[9]) {
			continue
		}
		exists := slices.ContainsFunc(d.versions, func(v imageVersion) bool { return v.name == segments[11] })
		return d.image, exists
	}
	return image{}, false
}

// listNodeImages lists the newest version of every image, and no other.
func (g *galleries) listNodeImages(r *request) (reply, error) {
	if err := g.sub.checkLocation(r.params["location"]); err != nil {
		return reply{}, err
	}
	g.clock.Lock()
	defer g.clock.Unlock()
	values := []any{}
	for _, d := range g.definitions {
		newest := d.versions[len(d.versions)-1].name
		os := sharedName(d.Gallery)
		values = append(values, map[string]string{"fullName": os + "-" + d.Name + "-" + newest, "os": os, "sku": d.Name, "version": newest})
	}
	return ok(map[string]any{"value": values})
}
