// SPDX-License-Identifier: Apache-2.0

package image

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
)

// Annotations of an AKSNodeClass that hold back newer images.
const (
	// AnnotationVersion is the only image version that nodes of the class use, such as
	// 202510.19.0: newer ones are not used, and nodes with any other version are replaced.
	AnnotationVersion = "karve.dev/image-version"
	// AnnotationMinAge is how long a version must have been published before nodes use it: 7d, or
	// a duration such as 36h. It is ignored beside AnnotationVersion.
	AnnotationMinAge = "karve.dev/image-min-age"
)

// A Selection says which images new nodes of a class use: by default the newest of each
// definition.
type Selection struct {
	Spec *v1beta1.AKSNodeClassSpec // required
	// Kubernetes is the version that nodes run; it determines the release of some families.
	Kubernetes string
	// Version is the only version allowed; empty means any.
	Version string
	// MinAge is how long a version must have been published.
	MinAge time.Duration
	// Current are the images that the node class has now. A version is kept when no other is old
	// enough. KeepCurrent keeps all that still match, unless Version requires another.
	Current     []v1beta1.NodeImage
	KeepCurrent bool
}

// SelectionOf returns what a node class wants. The error names the malformed annotation.
func SelectionOf(class *v1beta1.AKSNodeClass) (Selection, error) {
	w := Selection{
		Spec: &class.Spec, Kubernetes: kubeversion.Of(class), Version: class.Annotations[AnnotationVersion], Current: class.Status.Images,
	}
	if w.Version != "" && !versionForm.MatchString(w.Version) {
		return w, fmt.Errorf("annotation %s is %q: it must be a version of a node image such as 202510.19.0", AnnotationVersion, w.Version)
	}
	text, given := class.Annotations[AnnotationMinAge]
	if !given {
		return w, nil
	}
	age, err := parseAge(text)
	if err != nil {
		return w, fmt.Errorf("annotation %s is %q: it must be a number of days such as 7d, or a duration such as 36h, up to %s", AnnotationMinAge, text, days(imageLifetime))
	}
	w.MinAge = age
	return w, nil
}

var versionForm = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// imageLifetime is how long AKS keeps an image after it published it, and so the longest MinAge.
const imageLifetime = 365 * 24 * time.Hour

func parseAge(text string) (time.Duration, error) {
	age, err := time.ParseDuration(text)
	if number, inDays := strings.CutSuffix(text, "d"); inDays {
		var n int
		n, err = strconv.Atoi(number)
		age = time.Duration(min(n, 1000)) * 24 * time.Hour // more would overflow, and is an error below
	}
	if err == nil && (age < 0 || age > imageLifetime) {
		err = strconv.ErrRange
	}
	return age, err
}

// days formats whole days as days, other durations as durations.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return d.String()
}

// currentVersion returns the version of a definition that the node class has; empty when it has
// none.
func (w Selection) currentVersion(d definition) string {
	return versionIn(w.Current, d.name)
}

// newest returns the newest version that matches; empty when none does. A version that is
// requested by name may be a withdrawn one.
func (w Selection) newest(versions []imageVersion, now time.Time) string {
	var newest imageVersion
	for _, b := range versions {
		switch {
		case w.Version != "":
			if b.version == w.Version {
				return b.version
			}
		case !b.withdrawn && b.publishedBefore(w.MinAge, now) && later(b, newest):
			newest = b
		}
	}
	return newest.version
}

// An imageVersion is one version of an image; the zero imageVersion means none.
type imageVersion struct {
	version   string
	published time.Time // zero when the gallery does not say
	withdrawn bool      // never picked as the newest
	unlisted  bool      // in an earlier list, and not in the last one
}

// publishedBefore reports whether the version was published at least age ago. When the gallery does
// not report that, the build day at the beginning of most versions counts.
func (b imageVersion) publishedBefore(age time.Duration, now time.Time) bool {
	if age == 0 {
		return true
	}
	published := b.published
	if published.IsZero() {
		published = builtOn(b.version)
	}
	return !published.IsZero() && now.Sub(published) >= age
}

// builtOn parses the day in a version such as 202510.19.0, or the older form 2025.10.19; zero
// when there is none.
func builtOn(version string) time.Time {
	for _, form := range []string{"200601.02", "2006.01.02"} {
		if len(version) < len(form) {
			continue
		}
		if built, err := time.Parse(form, version[:len(form)]); err == nil {
			return built
		}
	}
	return time.Time{}
}

// tooOld reports whether AKS has removed the version by now.
func tooOld(b imageVersion, now time.Time) bool {
	built := builtOn(b.version)
	return !built.IsZero() && now.Sub(built) > imageLifetime
}

// later orders versions by date of publication, then by version, so that the result is stable for
// equal dates.
func later(a, b imageVersion) bool {
	return cmp.Or(a.published.Compare(b.published), CompareVersions(a.version, b.version), strings.Compare(a.version, b.version)) > 0
}

// CompareVersions compares number by number; a version that is not made of numbers equals any
// other.
func CompareVersions(a, b string) int {
	na, nb := numbers(a), numbers(b)
	if na == nil || nb == nil {
		return 0
	}
	return slices.Compare(na, nb)
}

func numbers(version string) []int {
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}
