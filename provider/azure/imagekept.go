package azure

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
)

// AnnotationImagesKept, on an AKSNodeClass, are the versions that the class lost before a
// maintenance window let it have newer ones: a JSON object of versions by image definition (lower
// case). New machines start from others then, as these cannot be had any more; those that run
// are as good as they were, and do not drift for it.
const AnnotationImagesKept = "karve.dev/images-kept"

// ImagesKept reads the annotation; nil when there is none, or none that can be read.
func ImagesKept(class *v1beta1.AKSNodeClass) map[string]string {
	var kept map[string]string
	if err := json.Unmarshal([]byte(class.Annotations[AnnotationImagesKept]), &kept); err != nil {
		return nil
	}
	return kept
}

// KeepImages notes in the annotation the versions of images that next has no more, or has in
// another version. What is noted of a definition already stays: machines may still run it.
func KeepImages(class *v1beta1.AKSNodeClass, next []v1beta1.NodeImage) {
	kept := ImagesKept(class)
	for _, image := range class.Status.Images {
		name, had := imageNamed(image.ID)
		key := strings.ToLower(name)
		if name == "" || kept[key] != "" || versionIn(next, name) == had {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = had
	}
	if text, err := json.Marshal(kept); err == nil && len(kept) > 0 { // a map of strings has no error
		if class.Annotations == nil {
			class.Annotations = map[string]string{}
		}
		class.Annotations[AnnotationImagesKept] = string(text)
	}
}

// KeptInWords says which images new machines start from because the class lost its own; empty
// when there are none.
func KeptInWords(class *v1beta1.AKSNodeClass) string {
	words, kept := "", ImagesKept(class)
	for _, image := range class.Status.Images {
		name, version := imageNamed(image.ID)
		if lost := kept[strings.ToLower(name)]; lost != "" && lost != version {
			words += fmt.Sprintf("; new machines start from %s of image %s, as Azure has no more %s (machines that run it do not drift until then)", version, name, lost)
		}
	}
	return words
}

// versionIn is the version of a definition among images; empty when it is not there.
func versionIn(images []v1beta1.NodeImage, definition string) string {
	for _, image := range images {
		if name, version := imageNamed(image.ID); strings.EqualFold(name, definition) {
			return version
		}
	}
	return ""
}

// owed is the version that machines of a definition must have lest they drift: that which new
// ones have, unless an older one is kept.
func owed(kept map[string]string, definition, version string) string {
	if k := kept[strings.ToLower(definition)]; k != "" && compareVersions(k, version) < 0 {
		return k
	}
	return version
}
