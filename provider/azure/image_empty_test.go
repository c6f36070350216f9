// SPDX-License-Identifier: Apache-2.0

package azure_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/azureemulator"
	"github.com/karve-dev/karve/provider/azure"
)

// Galleries that list no version at all, or not the image, remove none from a node class,
// whether all definitions are missing or one; a class without images waits a minute, and not
// until the next list is due.
//
// Rule IMAGE-8, Rule CATALOG-3.
func TestEmptyGalleriesTakeNothing(t *testing.T) {
	empty := func(of string) func(*testing.T, *region) {
		return func(t *testing.T, r *region) {
			if err := r.Inject(azureemulator.NamedFault{Name: "NoImages", Target: of, Times: -1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, happens := range map[string]func(*testing.T, *region){
		"all are empty":    empty(""),
		"one for arm64 is": empty("arm64containerd/versions$"),
		"there are none any more": func(t *testing.T, r *region) {
			r.fault(t, azureemulator.Fault{Path: "/versions$", Status: 404, Times: -1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
				p, c := r.provider(t), class("1.36.3")
				before, err := imagesOf(t, p, c, false)
				if err != nil || len(before) < 2 {
					t.Fatal(before, err)
				}
				c.Status.Images = before
				time.Sleep(2 * time.Hour)
				happens(t, r)
				for _, hold := range []bool{false, true} {
					images, err := imagesOf(t, p, c, hold)
					if diff := cmp.Diff(before, images); err != nil || diff != "" {
						t.Errorf("held: %v: %v (-before +now):\n%s", hold, err, diff)
					}
				}
				time.Sleep(2 * time.Minute)
				r.ClearFaults()
				fresh := class("1.36.3")
				if images, err := imagesOf(t, p, fresh, false); err != nil || cmp.Diff(before, images) != "" {
					t.Errorf("a new class afterwards: %v, %v", versionsOf(images), err)
				}
			})
		})
	}
}

// A version that is requested by name while the galleries are empty is not reported as wrong:
// that is unknown.
//
// Rule IMAGE-8.
func TestNamedImageOfEmptyGalleries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newVirtualRegion(t, azureemulator.Options{SystemNodes: -1, TimeScale: 1}).small()
		p, c := r.provider(t), class("1.36.3")
		var err error
		if c.Status.Images, err = imagesOf(t, p, c, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if err := r.Inject(azureemulator.NamedFault{Name: "NoImages", Times: -1}); err != nil {
			t.Fatal(err)
		}
		c.Annotations = map[string]string{azure.AnnotationImageVersion: "202510.19.0"}
		if images, err := imagesOf(t, p, c, false); err == nil || errors.Is(err, azure.ErrNoImages) {
			t.Errorf("%v, %v", versionsOf(images), err)
		}
		r.ClearFaults()
		time.Sleep(time.Minute)
		if images, err := imagesOf(t, p, c, false); err != nil || versionsOf(images)[0] != "202510.19.0" {
			t.Errorf("afterwards: %v, %v", versionsOf(images), err)
		}
	})
}
