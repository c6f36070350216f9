// SPDX-License-Identifier: Apache-2.0

package image

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karve-dev/karve/api/v1beta1"
)

// Every family resolves to the images that AKS has for it, and to nothing if it has none.
//
// Rule IMAGE-1.
func TestFamiliesResolve(t *testing.T) {
	yes, fips := true, v1beta1.FIPSModeFIPS
	for _, test := range []struct {
		family        v1beta1.ImageFamily
		minor         int
		trusted, fips bool
		label, names  string
	}{
		{"", 33, false, false, "Ubuntu2204", "2204gen2containerd, 2204containerd, 2204gen2arm64containerd"},
		{"Ubuntu", 34, false, false, "Ubuntu2404", "2404gen2containerd, 2404containerd, 2404gen2arm64containerd"},
		{"Ubuntu", 36, true, false, "Ubuntu2204", "2204gen2TLcontainerd"},
		{"Ubuntu", 36, false, true, "Ubuntu", "2004gen2fipscontainerd, 2004fipscontainerd"},
		{"Ubuntu", 36, true, true, "Ubuntu2204", "2204gen2fipsTLcontainerd"},
		{"Ubuntu2204", 36, false, false, "Ubuntu2204", "2204gen2containerd, 2204containerd, 2204gen2arm64containerd"},
		{"Ubuntu2204", 36, true, true, "Ubuntu2204", "2204gen2fipsTLcontainerd"},
		{"Ubuntu2204", 36, false, true, "Ubuntu2204", ""},
		{"Ubuntu2404", 30, true, false, "Ubuntu2404", "2404gen2TLcontainerd"},
		{"Ubuntu2404", 36, false, true, "Ubuntu2404", ""},
		{"AzureLinux", 31, false, false, "AzureLinux2", "V2gen2, V2, V2gen2arm64"},
		{"AzureLinux", 31, false, true, "AzureLinux2", "V2gen2fips, V2fips"},
		{"AzureLinux", 32, true, false, "AzureLinux3", "V3gen2TL"},
		{"AzureLinux", 32, false, true, "AzureLinux3", "V3gen2fips, V3fips, V3gen2arm64fips"},
		{"AzureLinux", 32, true, true, "AzureLinux3", ""},
	} {
		spec := &v1beta1.AKSNodeClassSpec{ImageFamily: &test.family}
		if test.trusted {
			spec.Security = &v1beta1.Security{TrustedLaunch: &v1beta1.TrustedLaunch{VTPM: &yes}}
		}
		if test.fips {
			spec.FIPSMode = &fips
		}
		if got := ReleaseFor(spec, test.minor); got.Label != test.label || got.names() != test.names {
			t.Errorf("%s, minor %d, trusted %v, FIPS %v: %s with %q; want %s with %q", test.family, test.minor, test.trusted, test.fips, got.Label, got.names(), test.label, test.names)
		}
	}
}

func TestDefinitionsNameTheirArchitecture(t *testing.T) {
	for name, want := range map[string]string{
		"2204gen2containerd": "amd64 2", "2204containerd": "amd64 1", "2204gen2arm64containerd": "arm64 2", "V3": "amd64 1", "V3gen2TL": "amd64 2", "V3gen2arm64fips": "arm64 2",
	} {
		d := definition{osUbuntu, name}
		if got := d.arch() + " " + d.generation(); got != want {
			t.Errorf("%s is for %s, want %s", name, got, want)
		}
	}
}

// Rule IMAGE-1, Rule IMAGE-4, Rule IMAGE-5.
func TestVersionsAreChosen(t *testing.T) {
	now := time.Date(2026, 5, 20, 0, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return now.AddDate(0, 0, -n) }
	community := []imageVersion{
		{version: "202605.10.0", published: day(8)},
		{version: "202605.17.0", published: day(1)},
		{version: "202605.18.0", published: day(1), withdrawn: true},
		{version: "202604.26.0", published: day(20)},
		{version: "202605.3.0", published: day(15)},
	}
	listed := []imageVersion{{version: "202605.17.0"}, {version: "202605.9.0"}, {version: "202605.10.0"}, {version: "2026.04.01"}} // no dates
	for name, test := range map[string]struct {
		versions  []imageVersion
		selection Selection
		want      string
	}{
		"newest":                       {community, Selection{}, "202605.17.0"},
		"a week old":                   {community, Selection{MinAge: 7 * 24 * time.Hour}, "202605.10.0"},
		"to the hour":                  {community, Selection{MinAge: 8 * 24 * time.Hour}, "202605.10.0"},
		"nothing is old enough":        {community, Selection{MinAge: 100 * 24 * time.Hour}, ""},
		"by name":                      {community, Selection{Version: "202604.26.0"}, "202604.26.0"},
		"by name, age means nothing":   {community, Selection{Version: "202605.17.0", MinAge: 7 * 24 * time.Hour}, "202605.17.0"},
		"by name, withdrawn":           {community, Selection{Version: "202605.18.0"}, "202605.18.0"},
		"by name, does not exist":      {community, Selection{Version: "202601.01.0"}, ""},
		"without dates, by number":     {listed, Selection{}, "202605.17.0"},
		"without dates, a week old":    {listed, Selection{MinAge: 7 * 24 * time.Hour}, "202605.10.0"},
		"without dates, a month old":   {listed, Selection{MinAge: 30 * 24 * time.Hour}, "2026.04.01"},
		"a version that tells nothing": {[]imageVersion{{version: "latest"}}, Selection{MinAge: time.Hour}, ""},
		"no versions":                  {nil, Selection{}, ""},
	} {
		for turn := range max(len(test.versions), 1) {
			turned := append(test.versions[turn:len(test.versions):len(test.versions)], test.versions[:turn]...)
			if got := test.selection.newest(turned, now); got != test.want {
				t.Errorf("%s, in order %d: %q, want %q", name, turn, got, test.want)
			}
		}
	}
}

func TestSelectionIsReadFromAnnotations(t *testing.T) {
	for _, test := range []struct{ key, value, wrong string }{
		{AnnotationVersion, "202510.19.0", ""},
		{AnnotationVersion, "newest", "it must be a version of a node image"},
		{AnnotationMinAge, "7d", ""},
		{AnnotationMinAge, "36h", ""},
		{AnnotationMinAge, "0d", ""},
		{AnnotationMinAge, "week", "it must be a number of days"},
		{AnnotationMinAge, "", "it must be a number of days"},
		{AnnotationMinAge, "-1d", "up to 365d"},
		{AnnotationMinAge, "9999999999d", "up to 365d"},
	} {
		class := &v1beta1.AKSNodeClass{}
		class.Annotations = map[string]string{test.key: test.value}
		_, err := SelectionOf(class)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: %q: %v, want %q", test.key, test.value, err, test.wrong)
		}
	}
	class := &v1beta1.AKSNodeClass{}
	class.Annotations = map[string]string{AnnotationVersion: "202510.19.0", AnnotationMinAge: "2d"}
	w, err := SelectionOf(class)
	if diff := cmp.Diff([]any{"202510.19.0", 48 * time.Hour}, []any{w.Version, w.MinAge}); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestImageVersion(t *testing.T) {
	for id, want := range map[string]string{
		"/CommunityGalleries/g/images/2204gen2containerd/versions/202607.06.0":                                    "202607.06.0",
		"/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/galleries/g/images/i/Versions/202509.21.0": "202509.21.0",
		"/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/images/mine":                               "",
	} {
		if got := Version(id); got != want {
			t.Errorf("%s: got version %q, want %q", id, got, want)
		}
	}
}
