// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

var rewrite = flag.Bool("rewrite", false, "write the bodies of testdata anew")

// versionsOf returns the versions of a class's images, each once.
func versionsOf(images []v1beta1.NodeImage) []string {
	var versions []string
	for _, image := range images {
		version := image.ID[strings.LastIndex(image.ID, "/")+1:]
		if len(versions) == 0 || versions[len(versions)-1] != version {
			versions = append(versions, version)
		}
	}
	return versions
}

func imagesOf(t *testing.T, p *azure.Provider, c *v1beta1.AKSNodeClass, hold bool) ([]v1beta1.NodeImage, error) {
	t.Helper()
	wish, err := azure.ImageSelectionOf(c)
	if err != nil {
		t.Fatal(err)
	}
	wish.KeepCurrent = hold
	return p.Images(t.Context(), wish)
}

// A version that a class holds is kept, is used again when it is requested by name, and changes
// when nothing holds it; definitions that are new to the class get the newest all the same.
//
// Rule IMAGE-1, Rule IMAGE-2, Rule IMAGE-4, Rule IMAGE-5.
func TestImagesOfAClass(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	p := r.provider(t)
	c := class("1.36.3")
	want := func(name string, hold bool, want ...string) {
		t.Helper()
		images, err := imagesOf(t, p, c, hold)
		if diff := cmp.Diff(want, versionsOf(images)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		c.Status.Images = images
	}
	want("at first", true, "202511.02.0")
	if err := r.PublishImage("", "202611.01.0"); err != nil {
		t.Fatal(err)
	}
	p = r.provider(t) // whose list is new
	want("held", true, "202511.02.0")
	c.Status.Images = c.Status.Images[:2]
	want("held, one definition is new", true, "202511.02.0", "202611.01.0")
	c.Annotations = map[string]string{azure.AnnotationImageMinAge: "7d"}
	want("a week old", false, "202511.02.0")
	c.Annotations[azure.AnnotationImageVersion] = "202510.05.0"
	want("by name, though held", true, "202510.05.0")
	c.Annotations = nil
	want("let go", false, "202611.01.0")

	c.Annotations = map[string]string{azure.AnnotationImageVersion: "202501.01.0"}
	if _, err := imagesOf(t, p, c, false); !errors.Is(err, azure.ErrNoImages) || !strings.Contains(err.Error(), "karve.dev/image-version") {
		t.Errorf("a version that does not exist: %v", err)
	}
}

// New images cause no drift if the class names its version; nodes of any other version drift, so
// that nodes can be rolled back from a bad image.
//
// Rule IMAGE-4.
func TestNamedVersionIsTheOnlyOne(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	c := class("1.36.3")
	c.Annotations = map[string]string{azure.AnnotationImageVersion: "202510.19.0"}
	renew := func() *azure.Provider {
		p := r.provider(t) // whose list is new
		images, err := imagesOf(t, p, c, false)
		if err != nil {
			t.Fatal(err)
		}
		annotations := c.Annotations
		var ids []string
		for _, i := range images {
			ids = append(ids, i.ID)
		}
		c = settledClass("1.36.3", ids...)
		for key, value := range annotations {
			c.Annotations[key] = value
		}
		r.class.Store(c)
		return p
	}
	p := renew()
	in, _ := run(t, p, claim("a", onDemand("Standard_D4ds_v5", "eastus-1")))
	if !strings.HasSuffix(in.ImageID, "/versions/202510.19.0") {
		t.Fatalf("the VM starts from %s", in.ImageID)
	}
	drift := func(p *azure.Provider, image string) string {
		t.Helper()
		d, err := p.Drift(t.Context(), provider.LaunchedNode{Claim: "a", Class: "default", ImageID: image, Annotations: in.Annotations})
		if err != nil {
			t.Fatal(err)
		}
		return d.Reason
	}
	for _, version := range []string{"202609.01.0", "202610.01.0"} {
		if err := r.PublishImage("", version); err != nil {
			t.Fatal(err)
		}
		if got := drift(renew(), in.ImageID); got != "" {
			t.Errorf("after %s was published: %s", version, got)
		}
	}
	p = renew()
	newer := strings.Replace(in.ImageID, "202510.19.0", "202610.01.0", 1)
	older := strings.Replace(in.ImageID, "202510.19.0", "202510.05.0", 1)
	if drift(p, newer) != azure.ImageDrift || drift(p, older) != azure.ImageDrift {
		t.Errorf("a newer VM: %q, an older one: %q", drift(p, newer), drift(p, older))
	}
	delete(c.Annotations, azure.AnnotationImageVersion)
	c.Annotations[azure.AnnotationImageMinAge] = "30d"
	if got := drift(renew(), newer); got != "" {
		t.Errorf("a newer VM drifts without a version being named: %s", got)
	}
}

// bodies records the bodies of requests for virtual machines.
type bodies struct {
	inner policy.Transporter
	mu    sync.Mutex
	put   []map[string]any
	asked map[string]int // requests by path
}

func (b *bodies) Do(req *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.asked[req.URL.Path]++
	b.mu.Unlock()
	if req.Method == http.MethodPut && strings.Contains(strings.ToLower(req.URL.Path), "/virtualmachines/") {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(raw))
		var body map[string]any
		if err := json.Unmarshal(raw, &body); err != nil {
			return nil, err
		}
		b.mu.Lock()
		b.put = append(b.put, body)
		b.mu.Unlock()
	}
	return b.inner.Do(req)
}

// times returns how often a path was requested.
func (b *bodies) times(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[path]
}

// record records the requests to the region from now on.
func (r *region) record() *bodies {
	options := *r.options.ClientOptions
	b := &bodies{inner: options.Transport, asked: map[string]int{}}
	options.Transport = b
	r.options.ClientOptions = &options
	return b
}

// shared makes the region's images come from AKS's shared galleries.
func (r *region) shared() *region {
	r.options.SharedGallery = azure.SharedGallery{SubscriptionID: r.SharedSubscriptionID(), TokenURL: r.SharedTokenURL()}
	return r
}

// The bodies of virtual machines, without customData and names that follow from the emulator's.
//
// Rule IMAGE-6, Rule IMAGE-9, Rule PRICE-5, Rule NETWORK-5.
func TestBodies(t *testing.T) {
	for name, prepare := range map[string]func(*region, *v1beta1.AKSNodeClass) provider.Claim{
		"plain": func(*region, *v1beta1.AKSNodeClass) provider.Claim {
			return claim("a", onDemand("Standard_D4s_v5", "eastus-1"))
		},
		"ephemeral-encrypted": func(r *region, _ *v1beta1.AKSNodeClass) provider.Claim {
			r.options.DiskEncryptionSetID = r.AddDiskEncryptionSet("keys")
			return claim("a", onDemand("Standard_D4ds_v5", "eastus-1"))
		},
		"dual-stack": func(r *region, _ *v1beta1.AKSNodeClass) provider.Claim {
			r.sixToo(t)
			return claim("a", onDemand("Standard_D4s_v5", "eastus-1"))
		},
		"spot-limited": func(_ *region, c *v1beta1.AKSNodeClass) provider.Claim {
			c.Annotations = map[string]string{azure.AnnotationSpotMaxPrice: "50%"}
			return claim("a", spot("Standard_D4s_v5", "eastus-2"))
		},
		"fips-trusted": func(r *region, c *v1beta1.AKSNodeClass) provider.Claim {
			r.shared()
			c.Spec.ImageFamily, c.Spec.FIPSMode = to.Ptr(v1beta1.ImageFamilyUbuntu2204), to.Ptr(v1beta1.FIPSModeFIPS)
			c.Spec.Security = &v1beta1.Security{EncryptionAtHost: to.Ptr(true), TrustedLaunch: &v1beta1.TrustedLaunch{VTPM: to.Ptr(true), SecureBoot: to.Ptr(true)}}
			return claim("a", onDemand("Standard_D4s_v5", "0"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
			c := class("1.36.3")
			claim := prepare(r, c)
			r.class.Store(c)
			sent := r.record()
			in, _ := run(t, r.provider(t), claim)
			if len(sent.put) != 1 {
				t.Fatalf("%d VMs were asked for", len(sent.put))
			}
			osProfile := sent.put[0]["properties"].(map[string]any)["osProfile"].(map[string]any)
			osProfile["customData"] = "…"
			got, err := json.MarshalIndent(sent.put[0], "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			wantBody(t, filepath.Join("testdata", "body-"+name+".json"), append(bytes.ReplaceAll(got, []byte(in.Name), []byte("NAME")), '\n'))
		})
	}
}

func wantBody(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// FIPS images are in the shared galleries only, where AKS lists only the newest version of each;
// one that is requested by name is assumed to exist.
//
// Rule IMAGE-5, Rule IMAGE-6.
func TestSharedGalleries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1})
		c := class("1.36.3")
		c.Spec.ImageFamily, c.Spec.FIPSMode = to.Ptr(v1beta1.ImageFamilyAzureLinux), to.Ptr(v1beta1.FIPSModeFIPS)
		if _, err := imagesOf(t, r.provider(t), c, false); !errors.Is(err, azure.ErrFIPSNeedsSharedGallery) {
			t.Errorf("FIPS images of the community: %v", err)
		}
		p := r.shared().provider(t)
		want := func(name, version string) {
			t.Helper()
			images, err := imagesOf(t, p, c, false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			id := "/subscriptions/" + r.SharedSubscriptionID() + "/resourceGroups/AKS-AzureLinux/providers/Microsoft.Compute/galleries/AKSAzureLinux/images/V3gen2fips/versions/" + version
			if len(images) != 3 || images[0].ID != id {
				t.Errorf("%s: %v", name, images)
			}
			c.Status.Images = images
		}
		publish := func(version string) {
			t.Helper()
			if err := r.PublishImage("", version); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour) // a list is cached for one
		}
		publish("199912.26.0")
		want("newest", "199912.26.0")
		had := c.Status.Images
		c.Annotations, c.Status.Images = map[string]string{azure.AnnotationImageMinAge: "7d"}, nil
		if _, err := imagesOf(t, p, c, false); !errors.Is(err, azure.ErrNoImages) || !strings.Contains(err.Error(), "7d old: lower the annotation") {
			t.Errorf("nothing is old enough: %v", err)
		}
		c.Annotations, c.Status.Images = map[string]string{azure.AnnotationImageVersion: "199911.01.0"}, had
		want("by name", "199911.01.0")
		c.Annotations = map[string]string{azure.AnnotationImageMinAge: "7d"}
		want("nothing is old enough", "199911.01.0")
		time.Sleep(12 * time.Hour)
		publish("200001.02.0")
		want("seen a week ago", "199911.01.0")
		time.Sleep(24 * time.Hour)
		want("old enough now, though no longer listed", "199912.26.0")
	})
}

// The token for the shared galleries is sent with creations only, is kept while it is valid, and
// is requested again when Azure does not accept it.
//
// Rule IMAGE-6.
func TestSharedGalleriesWantAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1}).small().shared()
		sent := r.record()
		p := r.provider(t)
		const token = "/sharedgallery/token"
		r.each(t, 5, func(i int) error {
			_, err := r.up(t, p, claim(string(rune('a'+i)), onDemand("Standard_D4s_v5", "eastus-1")))
			return err
		})
		if sent.times(token) != 1 {
			t.Errorf("%d tokens were asked for", sent.times(token))
		}
		time.Sleep(31 * time.Minute) // past the half of its life, when it is to be renewed
		if _, err := r.up(t, p, claim("later", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil || sent.times(token) != 2 {
			t.Errorf("half an hour later: %d tokens, %v", sent.times(token), err)
		}
		r.RevokeTokens()
		if _, err := p.Launch(t.Context(), claim("revoked", onDemand("Standard_D4s_v5", "eastus-1"))); err == nil {
			t.Error("a revoked token was taken")
		}
		if _, err := r.up(t, p, claim("revoked", onDemand("Standard_D4s_v5", "eastus-1"))); err != nil || sent.times(token) != 3 {
			t.Errorf("after a refusal: %d tokens, %v", sent.times(token), err)
		}
		r.options.SharedGallery.TokenURL += "/nowhere"
		_, err := r.provider(t).Launch(t.Context(), claim("other", onDemand("Standard_D4s_v5", "eastus-1")))
		if err == nil || !strings.Contains(err.Error(), "right to use AKS's shared galleries") {
			t.Errorf("without a token: %v", err)
		}
	})
}

// Rule IMAGE-9.
func TestDiskEncryptionSetIsChecked(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1})
	r.options.ClientOptions.Retry.MaxRetries = -1
	if err := r.provider(t).CheckDiskEncryptionSet(t.Context()); err != nil {
		t.Errorf("without a set: %v", err)
	}
	r.options.DiskEncryptionSetID = r.AddDiskEncryptionSet("keys")
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/diskEncryptionSets/", Status: 403, Code: "AuthorizationFailed"})
	p := r.provider(t)
	wrong := new(azure.DiskEncryptionSetError)
	if err := p.CheckDiskEncryptionSet(t.Context()); !errors.As(err, &wrong) || wrong.Reason != azure.DiskEncryptionSetDenied || !strings.Contains(wrong.Detail, "Reader") {
		t.Errorf("may not be read: %v", err)
	}
	if err := p.CheckDiskEncryptionSet(t.Context()); err != nil {
		t.Error(err)
	}
	r.fault(t, azureemulator.Fault{Method: "GET", Path: "/diskEncryptionSets/", Status: 500, Times: -1})
	if err := p.CheckDiskEncryptionSet(t.Context()); err != nil {
		t.Errorf("asked again within the hour: %v", err)
	}
	if err := r.provider(t).CheckDiskEncryptionSet(t.Context()); err == nil || errors.As(err, &wrong) {
		t.Errorf("Azure is down: %v", err)
	}
	r.options.DiskEncryptionSetID += "2"
	r.ClearFaults()
	if err := r.provider(t).CheckDiskEncryptionSet(t.Context()); !errors.As(err, &wrong) || wrong.Reason != azure.DiskEncryptionSetNotFound {
		t.Errorf("does not exist: %v", err)
	}
	r.options.DiskEncryptionSetID = "/subscriptions/other/resourceGroups/g/providers/Microsoft.Compute/diskEncryptionSets/keys"
	if _, err := azure.New(t.Context(), r.options); err == nil || !strings.Contains(err.Error(), "not the one that VMs are in") {
		t.Errorf("of another subscription: %v", err)
	}
}

// A spot price above the class's limit makes the offering unavailable, with that reason.
//
// Rule PRICE-5.
func TestSpotAboveTheLimitIsUnavailable(t *testing.T) {
	r := newRegion(t, azureemulator.Options{SystemNodes: -1}).small()
	c := class("1.36.3")
	c.Annotations = map[string]string{azure.AnnotationSpotMaxPrice: "0.04"}
	r.class.Store(c)
	for _, o := range mustFind(t, snapshot(t, r.provider(t)), "Standard_D4ds_v5").Offerings {
		if said := strings.Contains(o.Unavailable, "above the class's limit of 0.0400"); said != (o.CapacityType == "spot") {
			t.Errorf("%s in %s at %s: %q", o.CapacityType, o.Zone, o.Price, o.Unavailable)
		}
	}
}
