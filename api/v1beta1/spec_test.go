// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func TestDurationIsWrittenAsItWasRead(t *testing.T) {
	for _, text := range []string{`"1h"`, `"90m"`, `"2h15m30s"`, `null`} {
		var d NillableDuration
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Errorf("reading %s: %v", text, err)
		}
		if out, err := json.Marshal(d); err != nil || string(out) != text {
			t.Errorf("%s was written as %s, %v", text, out, err)
		}
	}
}

func TestDurationRefusesOtherText(t *testing.T) {
	for _, text := range []string{`"1d"`, `"Never"`, `5`, `""`} {
		var d NillableDuration
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s was read as %v", text, d)
		}
	}
}

// What a Go client leaves out must stay out, or the API server could not fill in
// its default.
func TestUnsetFieldsAreNotWritten(t *testing.T) {
	spec := AKSNodeClassSpec{Kubelet: &KubeletConfiguration{FailSwapOn: ptr.To(false)}}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kubelet":{"failSwapOn":false}}`; string(text) != want {
		t.Errorf("written as %s, want %s", text, want)
	}
}

func TestQuestionsAboutTheSpec(t *testing.T) {
	unset, set := &AKSNodeClassSpec{}, &AKSNodeClassSpec{
		FIPSMode:          ptr.To(FIPSModeFIPS),
		Security:          &Security{EncryptionAtHost: ptr.To(true), TrustedLaunch: &TrustedLaunch{SecureBoot: ptr.To(true)}},
		GPU:               &GPU{Mode: ptr.To(GPUModeNone)},
		ArtifactStreaming: &ArtifactStreaming{Enabled: ptr.To(true)},
	}
	for _, tc := range []struct {
		name            string
		ask             func(*AKSNodeClassSpec) bool
		onUnset, onFull bool
	}{
		{"FIPS", (*AKSNodeClassSpec).FIPS, false, true},
		{"EncryptsAtHost", (*AKSNodeClassSpec).EncryptsAtHost, false, true},
		{"UsesTrustedLaunch", (*AKSNodeClassSpec).UsesTrustedLaunch, false, true},
		{"InstallsGPUDriver", (*AKSNodeClassSpec).InstallsGPUDriver, true, false},
		{"StreamsArtifacts", (*AKSNodeClassSpec).StreamsArtifacts, false, true},
	} {
		if got := tc.ask(unset); got != tc.onUnset {
			t.Errorf("%s of an empty spec is %v", tc.name, got)
		}
		if got := tc.ask(set); got != tc.onFull {
			t.Errorf("%s of a full spec is %v", tc.name, got)
		}
	}
}

func TestOSSKU(t *testing.T) {
	for family, want := range map[ImageFamily]string{
		"": "Ubuntu", ImageFamilyUbuntu: "Ubuntu", ImageFamilyUbuntu2204: "Ubuntu", ImageFamilyUbuntu2404: "Ubuntu", ImageFamilyAzureLinux: "AzureLinux",
	} {
		if got := family.OSSKU(); got != want {
			t.Errorf("OSSKU of %q = %q, want %q", family, got, want)
		}
	}
}
