// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
)

// AnnotationKept, on an AKSNodeClass, holds the image versions that became unavailable
// before a maintenance window allowed newer ones: a JSON object of versions by image definition
// (lower case). New nodes use other versions then; nodes that run a kept version do not drift
// because of that.
const AnnotationKept = "karve.dev/images-kept"

// Tolerated parses the annotation; nil when it is missing or malformed.
func Tolerated(class *v1beta1.AKSNodeClass) map[string]string {
	var kept map[string]string
	if err := json.Unmarshal([]byte(class.Annotations[AnnotationKept]), &kept); err != nil {
		return nil
	}
	return kept
}

// Tolerate records in the annotation the versions of images that next lacks, or has in another
// version. An existing entry for a definition is kept: nodes may still run it.
func Tolerate(class *v1beta1.AKSNodeClass, next []v1beta1.NodeImage) {
	kept := Tolerated(class)
	for _, image := range class.Status.Images {
		name, had := Parts(image.ID)
		key := strings.ToLower(name)
		if name == "" || kept[key] != "" || versionIn(next, name) == had {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = had
	}
	if text, err := json.Marshal(kept); err == nil && len(kept) > 0 { // a map of strings always marshals
		if class.Annotations == nil {
			class.Annotations = map[string]string{}
		}
		class.Annotations[AnnotationKept] = string(text)
	}
}

// DescribeTolerated describes which images new nodes use because the node class lost its own; empty
// when there are none.
func DescribeTolerated(class *v1beta1.AKSNodeClass) string {
	words, kept := "", Tolerated(class)
	for _, image := range class.Status.Images {
		name, version := Parts(image.ID)
		if lost := kept[strings.ToLower(name)]; lost != "" && lost != version {
			words += fmt.Sprintf("; new VMs start from %s of image %s, because Azure has no more %s (VMs that run it do not drift until then)", version, name, lost)
		}
	}
	return words
}

// versionIn returns the version of a definition among images; empty when it is missing.
func versionIn(images []v1beta1.NodeImage, definition string) string {
	for _, image := range images {
		if name, version := Parts(image.ID); strings.EqualFold(name, definition) {
			return version
		}
	}
	return ""
}

// OldestAllowed returns the oldest version that nodes of a definition may run without drift: the
// version of new nodes, unless an older one is kept.
func OldestAllowed(kept map[string]string, definition, version string) string {
	if k := kept[strings.ToLower(definition)]; k != "" && CompareVersions(k, version) < 0 {
		return k
	}
	return version
}
