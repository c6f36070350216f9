// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure"
)

// An image that Azure does not find any more, and does not list, is given up, even if its class
// holds its images; one that is listed is kept, whatever a single answer said.
//
// Rule IMAGE-7. Rule AKS-5.
func TestImageThatIsGone(t *testing.T) {
	const used, next = "202511.02.0", "202510.19.0"
	notFound := func(r *region, times int) {
		r.fault(t, azureemulator.Fault{Method: http.MethodPut, Path: "/virtualMachines/[^/]+$", Status: http.StatusNotFound, Code: "GalleryImageNotFound", Times: times})
	}
	for name, test := range map[string]struct {
		happens func(r *region, quiet *atomic.Bool)
		aks     bool
		stays   string
	}{
		"taken away":                {func(r *region, _ *atomic.Bool) { r.RemoveImage(used) }, false, next},
		"not found once":            {func(r *region, _ *atomic.Bool) { notFound(r, 1) }, false, used},
		"AKS has it no more":        {func(r *region, _ *atomic.Bool) { r.RemoveImage(used) }, true, next},
		"AKS finds it out later":    {func(r *region, quiet *atomic.Bool) { notFound(r, 2); quiet.Store(true) }, true, next},
		"AKS does not find it once": {func(r *region, _ *atomic.Bool) { notFound(r, 1) }, true, used},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small().madeBy(test.aks)
				quiet := r.mayUnlist(used, next)
				p, c := r.provider(t), class("1.36.3")
				var err error
				if c.Status.Images, err = imagesOf(t, p, c, true); err != nil {
					t.Fatal(err)
				}
				r.class.Store(c)
				test.happens(r, quiet)
				web := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
				refused(t, p, web)
				if images, err := imagesOf(t, p, c, true); err != nil || versionsOf(images[:1])[0] != used {
					t.Errorf("images after one refusal: %v, %v", versionsOf(images), err)
				}
				if test.stays == next {
					time.Sleep(3 * time.Minute)
					refused(t, p, web)
				}
				time.Sleep(3 * time.Minute) // a failed offering is blocked for that long
				images, err := imagesOf(t, p, c, true)
				if err != nil || versionsOf(images[:1])[0] != test.stays { // the first is the one that was tried
					t.Fatalf("images of the class: %v, %v; want %s", versionsOf(images), err, test.stays)
				}
				if in, err := p.Launch(t.Context(), web); err != nil || in.ImageID != images[0].ID {
					t.Errorf("it starts from %s, %v", in.ImageID, err)
				}
			})
		})
	}
}

// A version that an annotation names, and that no list contains, is used until Azure refuses
// launches for it.
//
// Rule IMAGE-7, Rule IMAGE-4.
func TestNamedImageThatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small().shared()
		p, c := r.provider(t), class("1.36.3")
		c.Annotations = map[string]string{azure.AnnotationImageVersion: "202510.99.0"}
		var err error
		if c.Status.Images, err = imagesOf(t, p, c, false); err != nil {
			t.Fatal(err)
		}
		r.class.Store(c)
		web := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
		refused(t, p, web)
		time.Sleep(4 * time.Minute)
		refused(t, p, web)
		if images, err := imagesOf(t, p, c, false); err != nil || len(images) != len(c.Status.Images) {
			t.Errorf("images after four minutes: %v, %v", versionsOf(images), err)
		}
		time.Sleep(time.Minute)
		refused(t, p, web)
		images, err := imagesOf(t, p, c, false)
		if err != nil || len(images) != len(c.Status.Images)-1 || images[0].ID == c.Status.Images[0].ID {
			t.Errorf("images after that: %v, %v", versionsOf(images), err)
		}
	})
}

// Shared galleries list their newest version only. An older one that a class holds is given up
// when launches are refused for it for five minutes, though karve has seen it listed; a listed
// one that is newer than the current list was withdrawn, and is not chosen.
//
// Rule IMAGE-7, Rule IMAGE-3, Rule IMAGE-5.
func TestImageThatSharedGalleriesTellNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const used, next, bad = "202511.02.0", "202512.01.0", "202601.05.0"
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small().shared()
		p, c := r.provider(t), class("1.36.3")
		want := func(when string, hold bool, version string) {
			t.Helper()
			images, err := imagesOf(t, p, c, hold)
			if err != nil || versionsOf(images[:1])[0] != version {
				t.Fatalf("%s: %v, %v; want %s", when, versionsOf(images), err, version)
			}
			c.Status.Images = images
			r.class.Store(c.DeepCopy())
		}
		publish := func(version string) {
			t.Helper()
			if err := r.PublishImage("", version); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Hour) // a list is cached for one
		}
		want("at first", false, used)
		publish(next)
		want("held", true, used)
		r.RemoveImage(used)
		web := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
		for range 2 {
			refused(t, p, web)
			want("refused", true, used)
			time.Sleep(150 * time.Second)
		}
		refused(t, p, web)
		want("refused for five minutes", true, next)
		if _, err := p.Launch(t.Context(), web); err != nil {
			t.Error(err)
		}

		publish(bad)
		want("a newer one", false, bad)
		r.RemoveImage(bad)
		time.Sleep(2 * time.Hour)
		want("it was withdrawn", false, next)
	})
}

// mayUnlist makes galleries list another version instead of one when it is switched on; AKS
// still accepts VMs with it.
func (r *region) mayUnlist(version, instead string) *atomic.Bool {
	options, u := *r.options.ClientOptions, &unlisted{inner: r.options.ClientOptions.Transport, version: version, instead: instead}
	options.Transport = u
	r.options.ClientOptions = &options
	return &u.on
}

type unlisted struct {
	inner            policy.Transporter
	version, instead string
	on               atomic.Bool
}

func (u *unlisted) Do(req *http.Request) (*http.Response, error) {
	resp, err := u.inner.Do(req)
	if err != nil || !u.on.Load() || path.Base(req.URL.Path) != "versions" {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(body), u.version, u.instead)))
	resp.ContentLength = -1
	return resp, nil
}

// refused requests a virtual machine for which no image exists.
func refused(t *testing.T, p *azure.Provider, c provider.Claim) {
	t.Helper()
	if in, err := toTheEnd(t, p, c); err == nil {
		t.Fatalf("there is a VM of an image that was not found: %+v", in)
	}
}
