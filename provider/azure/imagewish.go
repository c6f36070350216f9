package azure

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
)

// Annotations of an AKSNodeClass that hold its images back.
const (
	// AnnotationImageVersion is the one version that nodes of the class start from, such
	// as 202510.19.0: newer ones do not come, and machines of any other are replaced.
	AnnotationImageVersion = "karve.dev/image-version"
	// AnnotationImageMinAge is how long a version must have been published before nodes
	// start from it: 7d, or a duration such as 36h. It means nothing beside a version.
	AnnotationImageMinAge = "karve.dev/image-min-age"
)

// An ImageWish says which images new nodes of a class shall start from. The newest of
// each kind, unless it says otherwise.
type ImageWish struct {
	Spec *v1beta1.AKSNodeClassSpec // required
	// Kubernetes is the version that nodes run; some families go by it.
	Kubernetes string
	// Version is the only version that will do; empty means any.
	Version string
	// MinAge is how long a version must have been published.
	MinAge time.Duration
	// Have are the images that the class has now. One of them stays where nothing is old
	// enough, and Hold keeps all that are still wanted, unless Version asks for another.
	Have []v1beta1.NodeImage
	Hold bool
}

// ImageWishOf reads what a class wants. The error names the annotation that cannot be meant.
func ImageWishOf(class *v1beta1.AKSNodeClass) (ImageWish, error) {
	w := ImageWish{
		Spec: &class.Spec, Kubernetes: kubernetesVersion(class), Version: class.Annotations[AnnotationImageVersion], Have: class.Status.Images,
	}
	if w.Version != "" && !imageVersionForm.MatchString(w.Version) {
		return w, fmt.Errorf("annotation %s is %q: it must be a version of a node image such as 202510.19.0", AnnotationImageVersion, w.Version)
	}
	text, given := class.Annotations[AnnotationImageMinAge]
	if !given {
		return w, nil
	}
	age, err := parseAge(text)
	if err != nil {
		return w, fmt.Errorf("annotation %s is %q: it must be a number of days such as 7d, or a duration such as 36h, up to %s", AnnotationImageMinAge, text, days(oldestMinAge))
	}
	w.MinAge = age
	return w, nil
}

var imageVersionForm = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// oldestMinAge: AKS takes images away a year after it published them.
const oldestMinAge = 365 * 24 * time.Hour

func parseAge(text string) (time.Duration, error) {
	age, err := time.ParseDuration(text)
	if number, inDays := strings.CutSuffix(text, "d"); inDays {
		var n int
		n, err = strconv.Atoi(number)
		age = time.Duration(min(n, 1000)) * 24 * time.Hour // more would overflow, and is refused below
	}
	if err == nil && (age < 0 || age > oldestMinAge) {
		err = strconv.ErrRange
	}
	return age, err
}

// days writes a duration in days where it is some.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	return d.String()
}

// had is the version of a definition that the class has; empty when it has none.
func (w ImageWish) had(d imageDefinition) string {
	return versionIn(w.Have, d.name)
}

// choose picks a version; empty when none will do. A version that is wanted by name may
// be one that AKS would not choose any more.
func (w ImageWish) choose(builds []build, now time.Time) string {
	var newest build
	for _, b := range builds {
		switch {
		case w.Version != "":
			if b.version == w.Version {
				return b.version
			}
		case !b.withdrawn && b.olderThan(w.MinAge, now) && later(b, newest):
			newest = b
		}
	}
	return newest.version
}

// A build is one version of an image; the zero build is none.
type build struct {
	version   string
	published time.Time // zero when the gallery does not say
	withdrawn bool      // not to be chosen for being the newest
	past      bool      // told by an earlier list, and not by the last
}

// olderThan reports whether it has been out for so long. What the gallery does not say
// is in most versions: they begin with the day they were built on.
func (b build) olderThan(age time.Duration, now time.Time) bool {
	if age == 0 {
		return true
	}
	out := b.published
	if out.IsZero() {
		out = builtOn(b.version)
	}
	return !out.IsZero() && now.Sub(out) >= age
}

// builtOn reads the day in a version such as 202510.19.0, or 2025.10.19 of old; zero when
// there is none.
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

// tooOld reports whether AKS has taken a version away by now.
func tooOld(b build, now time.Time) bool {
	built := builtOn(b.version)
	return !built.IsZero() && now.Sub(built) > oldestMinAge
}

// later orders builds by date of publication, then by version, so that equal dates do
// not make the choice flicker.
func later(a, b build) bool {
	return cmp.Or(a.published.Compare(b.published), compareVersions(a.version, b.version), strings.Compare(a.version, b.version)) > 0
}
