// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The numbers are the hashes that clusters in production already carry for
// these specs. One of them changing means that every node drifts on upgrade.
func TestHashIsTheOneClustersCarry(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*AKSNodeClassSpec)
		want   string
	}{
		{"base", func(*AKSNodeClassSpec) {}, "4108492229247269128"},
		{"subnet", func(s *AKSNodeClassSpec) { s.VNETSubnetID = ptr.To("subnet-id-2") }, "13971920214979852468"},
		{"disk", func(s *AKSNodeClassSpec) { s.OSDiskSizeGB = ptr.To[int32](40) }, "7816855636861645563"},
		{"image family", func(s *AKSNodeClassSpec) { s.ImageFamily = ptr.To(ImageFamilyAzureLinux) }, "15616969746300892810"},
		{"kubelet", func(s *AKSNodeClassSpec) { s.Kubelet.CPUManagerPolicy = ptr.To(CPUManagerPolicyNone) }, "33638514539106194"},
		{"max pods", func(s *AKSNodeClassSpec) { s.MaxPods = ptr.To[int32](200) }, "15508761509963240710"},
		{"local DNS", func(s *AKSNodeClassSpec) { s.LocalDNS = &LocalDNS{Mode: LocalDNSModeRequired} }, "17805442572569734619"},
		{"local DNS zone", func(s *AKSNodeClassSpec) {
			s.LocalDNS = vnetZone(LocalDNSZoneOverride{Zone: "example.com", QueryLogging: LocalDNSQueryLoggingLog})
		}, "14608914734386108436"},
		{"local DNS cache duration", func(s *AKSNodeClassSpec) {
			s.LocalDNS = vnetZone(LocalDNSZoneOverride{Zone: "example.com", CacheDuration: duration(t, "1h")})
		}, "11008649797056761238"},
		{"local DNS stale duration", func(s *AKSNodeClassSpec) {
			s.LocalDNS = vnetZone(LocalDNSZoneOverride{Zone: "example.com", ServeStaleDuration: duration(t, "30m")})
		}, "4895720480850206885"},
		{"artifact streaming", func(s *AKSNodeClassSpec) { s.ArtifactStreaming = &ArtifactStreaming{Enabled: ptr.To(true)} }, "15355387647114481444"},
		{"tags do not count", func(s *AKSNodeClassSpec) { s.Tags = map[string]string{"other": "tag"} }, "4108492229247269128"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			class := AKSNodeClass{Spec: specOfKnownHash()}
			tc.change(&class.Spec)
			if got := class.Hash(); got != tc.want {
				t.Errorf("Hash() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestHashIgnoresTheOrderOfLists(t *testing.T) {
	a := AKSNodeClass{Spec: specOfKnownHash()}
	b := AKSNodeClass{Spec: specOfKnownHash()}
	a.Spec.Kubelet.AllowedUnsafeSysctls = []string{"kernel.msg*", "net.core.somaxconn"}
	b.Spec.Kubelet.AllowedUnsafeSysctls = []string{"net.core.somaxconn", "kernel.msg*"}
	if a.Hash() != b.Hash() {
		t.Errorf("Hash() differs with the order of allowedUnsafeSysctls: %s and %s", a.Hash(), b.Hash())
	}
}

func specOfKnownHash() AKSNodeClassSpec {
	return AKSNodeClassSpec{
		VNETSubnetID: ptr.To("subnet-id"),
		OSDiskSizeGB: ptr.To[int32](30),
		ImageFamily:  ptr.To(ImageFamilyUbuntu2204),
		Tags:         map[string]string{"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2"},
		MaxPods:      ptr.To[int32](100),
		Kubelet: &KubeletConfiguration{
			CPUManagerPolicy:            ptr.To(CPUManagerPolicyStatic),
			CPUCFSQuota:                 ptr.To(true),
			CPUCFSQuotaPeriod:           &metav1.Duration{Duration: 100 * time.Millisecond},
			ImageGCHighThresholdPercent: ptr.To[int32](85),
			ImageGCLowThresholdPercent:  ptr.To[int32](80),
			TopologyManagerPolicy:       ptr.To(TopologyManagerPolicyNone),
			AllowedUnsafeSysctls:        []string{"net.core.somaxconn"},
			ContainerLogMaxSize:         ptr.To("10Mi"),
			ContainerLogMaxFiles:        ptr.To[int32](10),
		},
	}
}

func vnetZone(z LocalDNSZoneOverride) *LocalDNS {
	return &LocalDNS{VnetDNSOverrides: []LocalDNSZoneOverride{z}}
}

func duration(t *testing.T, text string) NillableDuration {
	t.Helper()
	d, err := ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
