package azure_test

import (
	"net/http"
	"testing"

	"github.com/karve-dev/karve/provider/azure"
	"github.com/karve-dev/karve/provider/azure/emulator"
)

// An image that Azure does not find any more, and does not list, is given up, though newer
// ones are held back; one that is listed stays, whatever a single answer said.
//
// Rule 65.
func TestImageThatIsGone(t *testing.T) {
	const used, newer = "202511.02.0", "202611.01.0"
	for name, test := range map[string]struct {
		happens func(*region)
		stays   string
	}{
		"taken away": {func(r *region) { r.RemoveImage(used) }, newer},
		"not found once": {func(r *region) {
			r.fault(t, emulator.Fault{Method: http.MethodPut, Path: "/virtualMachines/[^/]+$", Status: http.StatusNotFound, Code: "GalleryImageNotFound", Times: 1})
		}, used},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegion(t, emulator.Options{SystemNodes: -1}).small()
			p, c := r.provider(t), class("1.36.3")
			var err error
			if c.Status.Images, err = imagesOf(t, p, c, true); err != nil {
				t.Fatal(err)
			}
			r.class.Store(c)
			if err := r.PublishImage("", newer); err != nil {
				t.Fatal(err)
			}
			test.happens(r)
			web := claim("a", onDemand("Standard_D2s_v5", "eastus-1"))
			if _, err := p.Launch(t.Context(), web); err == nil {
				t.Fatal("there is a machine of an image that was not found")
			}
			images, err := imagesOf(t, p, c, true)
			if err != nil || versionsOf(images[:1])[0] != test.stays { // the first is the one that was tried
				t.Fatalf("images of the class: %v, %v; want %s", versionsOf(images), err, test.stays)
			}
			if in, _ := run(t, p, web); in.ImageID != images[0].ID {
				t.Errorf("it starts from %s", in.ImageID)
			}
		})
	}
}

// A version that an annotation names, and of which no list tells, is believed in until a
// machine is refused for it.
//
// Rule 65, Rule 262.
func TestNamedImageThatIsNotThere(t *testing.T) {
	r := newRegion(t, emulator.Options{SystemNodes: -1}).small().shared()
	p, c := r.provider(t), class("1.36.3")
	c.Annotations = map[string]string{azure.AnnotationImageVersion: "202510.99.0"}
	var err error
	if c.Status.Images, err = imagesOf(t, p, c, false); err != nil {
		t.Fatal(err)
	}
	r.class.Store(c)
	if _, err := p.Launch(t.Context(), claim("a", onDemand("Standard_D2s_v5", "eastus-1"))); err == nil {
		t.Error("there is a machine of an image that does not exist")
	}
	images, err := imagesOf(t, p, c, false)
	if err != nil || len(images) != len(c.Status.Images)-1 || images[0].ID == c.Status.Images[0].ID {
		t.Errorf("images after that: %v, %v", versionsOf(images), err)
	}
}
