// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const subnet = "/subscriptions/12345678-1234-1234-1234-123456789012/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/vnet/subnets/nodes"

func TestAKSNodeClassAcceptsAndRefuses(t *testing.T) {
	gates := map[string]gate{}
	for _, version := range []string{"v1alpha2", "v1beta1"} {
		gates["karpenter.azure.com/"+version] = openGate(t, "AKSNodeClass", version)
	}
	for _, tc := range []struct {
		name, spec string
		// refused is part of what the user is told; empty means accepted.
		refused string
	}{
		{"nothing set", "{}", ""},
		{"a usual class", "imageFamily: AzureLinux\nosDiskSizeGB: 128\nmaxPods: 110\ntags: {team: web}", ""},

		{"subnet", "vnetSubnetID: " + subnet, ""},
		{"subnet in other case", "vnetSubnetID: " + strings.ToUpper(subnet), ""},
		{"subnet in lower case", "vnetSubnetID: " + strings.ToLower(subnet), ""},
		{"subnet in a group with odd characters", "vnetSubnetID: " + strings.Replace(subnet, "/rg/", "/.my_rg.(test)-/", 1), ""},
		{"subnet in a group of 90", "vnetSubnetID: " + strings.Replace(subnet, "/rg/", "/"+strings.Repeat("r", 90)+"/", 1), ""},
		{"subnet in a group of 91", "vnetSubnetID: " + strings.Replace(subnet, "/rg/", "/"+strings.Repeat("r", 91)+"/", 1), "spec.vnetSubnetID"},
		{"subnet in a group ending in a dot", "vnetSubnetID: " + strings.Replace(subnet, "/rg/", "/rg./", 1), "spec.vnetSubnetID"},
		{"subnet in a group with a hash", "vnetSubnetID: '" + strings.Replace(subnet, "/rg/", "/r#g/", 1) + "'", "spec.vnetSubnetID"},
		{"subnet name only", "vnetSubnetID: nodes", "vnetSubnetID must be the full resource ID of a subnet: /subscriptions/"},
		{"network instead of subnet", "vnetSubnetID: " + strings.TrimSuffix(subnet, "/subnets/nodes"), "vnetSubnetID must be the full resource ID of a subnet"},
		{"subnet of another provider", "vnetSubnetID: " + strings.Replace(subnet, "Network/", "Storage/", 1), "spec.vnetSubnetID"},

		{"smallest disk", "osDiskSizeGB: 30", ""},
		{"largest disk", "osDiskSizeGB: 2048", ""},
		{"disk too small", "osDiskSizeGB: 29", "should be greater than or equal to 30"},
		{"disk too large", "osDiskSizeGB: 2049", "should be less than or equal to 2048"},
		{"disk as text", "osDiskSizeGB: 128Gi", "spec.osDiskSizeGB"},
		{"quota period", "kubelet: {cpuCFSQuotaPeriod: 50ms}", ""},
		{"quota period that is no duration", "kubelet: {cpuCFSQuotaPeriod: banana}", "cpuCFSQuotaPeriod must be a length of time from 1ms to 1s"},
		{"quota period too long", "kubelet: {cpuCFSQuotaPeriod: 2s}", "cpuCFSQuotaPeriod must be a length of time from 1ms to 1s"},
		{"quota period that no client can read", "kubelet: {cpuCFSQuotaPeriod: 9999999h}", "cpuCFSQuotaPeriod must be a length of time from 1ms to 1s"},
		{"unsafe sysctls", "kubelet: {allowedUnsafeSysctls: [kernel.sem, 'kernel.msg*', net.core.somaxconn]}", ""},
		{"sysctl of the whole node", "kubelet: {allowedUnsafeSysctls: [kernel.panic]}", "spec.kubelet.allowedUnsafeSysctls[0]"},
		{"unknown image family", "imageFamily: Windows2022", `supported values: "Ubuntu", "Ubuntu2204", "Ubuntu2404", "AzureLinux"`},
		{"unknown FIPS mode", "fipsMode: Enabled", `supported values: "FIPS", "Disabled"`},
		{"too few pods", "maxPods: 9", "spec.maxPods"},
		{"too many pods", "maxPods: 251", "spec.maxPods"},

		{"longest tag", "tags: {" + strings.Repeat("k", 512) + ": " + strings.Repeat("v", 256) + "}", ""},
		{"tag key too long", "tags: {" + strings.Repeat("k", 513) + ": v}", "a tag key may have at most 512 characters"},
		{"tag value too long", "tags: {k: " + strings.Repeat("v", 257) + "}", "a tag value may have at most 256 characters"},
		{"tag with a slash", "tags: {example.com/team: web}", ""},
		{"tag with <", "tags: {'a<b': v}", "a tag key may not contain any of"},
		{"tag with >", "tags: {'a>b': v}", "a tag key may not contain any of"},
		{"tag with %", "tags: {'a%b': v}", "a tag key may not contain any of"},
		{"tag with &", "tags: {'a&b': v}", "a tag key may not contain any of"},
		{"tag with ?", "tags: {'a?b': v}", "a tag key may not contain any of"},
		{"tag with a backslash", `tags: {'a\b': v}`, "a tag key may not contain a backslash"},

		{"FIPS", "fipsMode: FIPS", ""},
		{"FIPS on AzureLinux", "fipsMode: FIPS\nimageFamily: AzureLinux", ""},
		{"FIPS on Ubuntu with trusted launch", "fipsMode: FIPS\nimageFamily: Ubuntu\n" + trusted("vtpm"), ""},
		{"FIPS on 22.04 with vTPM", "fipsMode: FIPS\nimageFamily: Ubuntu2204\n" + trusted("vtpm"), ""},
		{"FIPS on 22.04 with secure boot", "fipsMode: FIPS\nimageFamily: Ubuntu2204\n" + trusted("secureBoot"), ""},
		{"FIPS on 22.04", "fipsMode: FIPS\nimageFamily: Ubuntu2204", "fipsMode FIPS with imageFamily Ubuntu2204 needs trusted launch"},
		{"FIPS on 22.04 with trusted launch off", "fipsMode: FIPS\nimageFamily: Ubuntu2204\nsecurity: {trustedLaunch: {vtpm: false}}", "fipsMode FIPS with imageFamily Ubuntu2204 needs trusted launch"},
		{"FIPS on 24.04", "fipsMode: FIPS\nimageFamily: Ubuntu2404", "fipsMode FIPS needs an imageFamily that has a FIPS image"},
		{"FIPS on 24.04 with trusted launch", "fipsMode: FIPS\nimageFamily: Ubuntu2404\n" + trusted("vtpm"), "fipsMode FIPS needs an imageFamily that has a FIPS image"},
		{"FIPS on AzureLinux with trusted launch", "fipsMode: FIPS\nimageFamily: AzureLinux\n" + trusted("secureBoot"), "fipsMode FIPS together with trusted launch is available for imageFamily Ubuntu and Ubuntu2204 only"},
		{"no FIPS on 24.04 with trusted launch", "fipsMode: Disabled\nimageFamily: Ubuntu2404\n" + trusted("vtpm"), ""},
		{"trusted launch on AzureLinux", "imageFamily: AzureLinux\n" + trusted("secureBoot"), ""},
		{"encryption at host", "security: {encryptionAtHost: true}", ""},

		{"GPU driver", "gpu: {mode: Driver}", ""},
		{"GPU without driver", "gpu: {mode: None}", ""},
		{"GPU mode unknown", "gpu: {mode: Operator}", `supported values: "Driver", "None"`},
		{"artifact streaming", "artifactStreaming: {enabled: true}", ""},

		{"kubelet", "kubelet: {cpuManagerPolicy: static, topologyManagerPolicy: single-numa-node, containerLogMaxSize: 10Mi, podPidsLimit: -1}", ""},
		{"kubelet image GC", "kubelet: {imageGCHighThresholdPercent: 85, imageGCLowThresholdPercent: 80}", ""},
		{"kubelet image GC one sided", "kubelet: {imageGCLowThresholdPercent: 80}", ""},
		{"kubelet image GC equal", "kubelet: {imageGCHighThresholdPercent: 80, imageGCLowThresholdPercent: 80}", "imageGCHighThresholdPercent must be greater than kubelet.imageGCLowThresholdPercent"},
		{"kubelet image GC over 100", "kubelet: {imageGCHighThresholdPercent: 101}", "spec.kubelet.imageGCHighThresholdPercent"},
		{"kubelet log size without unit", "kubelet: {containerLogMaxSize: '50'}", "spec.kubelet.containerLogMaxSize"},
		{"kubelet one log file", "kubelet: {containerLogMaxFiles: 1}", "spec.kubelet.containerLogMaxFiles"},
		{"kubelet unknown CPU policy", "kubelet: {cpuManagerPolicy: exclusive}", `supported values: "none", "static"`},
		{"kubelet unknown topology policy", "kubelet: {topologyManagerPolicy: strict}", "single-numa-node"},

		{"swap", "linuxOSConfig: {swapFileSize: 2Gi}\nkubelet: {failSwapOn: false}", ""},
		{"swap with a kubelet that refuses it", "linuxOSConfig: {swapFileSize: 2Gi}\nkubelet: {failSwapOn: true}", "swapFileSize needs kubelet.failSwapOn set to false"},
		{"swap with no word on failSwapOn", "linuxOSConfig: {swapFileSize: 2Gi}\nkubelet: {}", "swapFileSize needs kubelet.failSwapOn set to false"},
		{"swap without kubelet", "linuxOSConfig: {swapFileSize: 2Gi}", "swapFileSize needs kubelet.failSwapOn set to false"},
		{"swap of no unit", "linuxOSConfig: {swapFileSize: '2'}\nkubelet: {failSwapOn: false}", "spec.linuxOSConfig.swapFileSize"},
		{"failSwapOn alone", "kubelet: {failSwapOn: false}", ""},
		{"huge pages", "linuxOSConfig: {transparentHugePageEnabled: madvise, transparentHugePageDefrag: defer+madvise}", ""},
		{"huge pages deferred but enabled", "linuxOSConfig: {transparentHugePageEnabled: defer}", "spec.linuxOSConfig.transparentHugePageEnabled"},

		{"receive buffers", sysctls("netCoreRmemDefault: 212992, netCoreRmemMax: 212992"), ""},
		{"receive buffer default alone", sysctls("netCoreRmemDefault: 1000000"), ""},
		{"receive buffers crossed", sysctls("netCoreRmemDefault: 212993, netCoreRmemMax: 212992"), "netCoreRmemDefault may not be greater than"},
		{"send buffers crossed", sysctls("netCoreWmemDefault: 212993, netCoreWmemMax: 212992"), "netCoreWmemDefault may not be greater than"},
		{"neighbour thresholds", sysctls("netIPv4NeighDefaultGcThresh1: 1024, netIPv4NeighDefaultGcThresh2: 1024, netIPv4NeighDefaultGcThresh3: 1024"), ""},
		{"neighbour thresholds 1 and 2 crossed", sysctls("netIPv4NeighDefaultGcThresh1: 1025, netIPv4NeighDefaultGcThresh2: 1024"), "netIPv4NeighDefaultGcThresh1 may not be greater than"},
		{"neighbour thresholds 2 and 3 crossed", sysctls("netIPv4NeighDefaultGcThresh2: 1025, netIPv4NeighDefaultGcThresh3: 1024"), "netIPv4NeighDefaultGcThresh2 may not be greater than"},
		{"widest port range", sysctls("netIPv4IPLocalPortRange: 1024 65535"), ""},
		{"narrowest port range", sysctls("netIPv4IPLocalPortRange: 60999 60999"), ""},
		{"port range starts too low", sysctls("netIPv4IPLocalPortRange: 1023 60999"), "the first port of sysctls.netIPv4IPLocalPortRange must be from 1024 to 60999"},
		{"port range starts too high", sysctls("netIPv4IPLocalPortRange: 61000 65535"), "the first port of sysctls.netIPv4IPLocalPortRange must be from 1024 to 60999"},
		{"port range ends too low", sysctls("netIPv4IPLocalPortRange: 1024 32767"), "the last port of sysctls.netIPv4IPLocalPortRange must be from 32768 to 65535"},
		{"port range ends too high", sysctls("netIPv4IPLocalPortRange: 1024 65536"), "the last port of sysctls.netIPv4IPLocalPortRange must be from 32768 to 65535"},
		{"port range backwards", sysctls("netIPv4IPLocalPortRange: 60000 50000"), "may not be greater than the last"},
		{"port range with a dash", sysctls("netIPv4IPLocalPortRange: 1024-65535"), "netIPv4IPLocalPortRange"},
		{"sysctl below its range", sysctls("vmMaxMapCount: 65529"), "vmMaxMapCount"},
		{"sysctl above its range", sysctls("vmSwappiness: 101"), "vmSwappiness"},
		{"sysctl yes or no", sysctls("netIPv4TCPTwReuse: true"), ""},

		{"local DNS", localDNS("Required", both(), both()), ""},
		{"local DNS preferred", localDNS("Preferred", both(), both()), ""},
		{"local DNS unknown mode", localDNS("Enabled", both(), both()), `supported values: "Preferred", "Required", "Disabled"`},
		{"local DNS without overrides", "localDNS: {mode: Required}", "Required value"},
		{"local DNS without root zone", localDNS("Required", []string{cluster()}, both()), "localDNS.vnetDNSOverrides must have an entry for zone '.'"},
		{"local DNS without cluster.local", localDNS("Required", both(), []string{root()}), "localDNS.kubeDNSOverrides must have an entry for zone '.' and one for zone 'cluster.local'"},
		{"local DNS with a zone twice", localDNS("Required", both(cluster()), both()), "Duplicate value"},
		{"local DNS root to CoreDNS", localDNS("Required", []string{zone(".", "ClusterCoreDNS"), cluster()}, both()), "may not forward the root zone '.' to ClusterCoreDNS"},
		{"local DNS root of pods to CoreDNS", localDNS("Required", both(), []string{zone(".", "ClusterCoreDNS"), cluster()}), ""},
		{"local DNS other zone", localDNS("Required", both(zone("example.com", "VnetDNS")), both()), ""},
		{"local DNS other zone to CoreDNS", localDNS("Required", both(zone("example.com", "ClusterCoreDNS")), both()), "may not forward zones outside cluster.local to ClusterCoreDNS"},
		{"local DNS other zone of pods to CoreDNS", podZone(zone("example.com", "ClusterCoreDNS")), ""},
		{"local DNS cluster.local to the network", localDNS("Required", both(), []string{root(), zone("cluster.local", "VnetDNS")}), "may not forward cluster.local or a zone below it to VnetDNS"},
		{"local DNS zone below cluster.local to the network", podZone(zone("sub.cluster.local", "VnetDNS")), "may not forward cluster.local or a zone below it to VnetDNS"},
		{"local DNS malformed zone", podZone(zone("-bad-", "VnetDNS")), "zone in body should match"},
		{"local DNS stale over TCP", podZone(zone("example.com", "VnetDNS", "protocol: ForceTCP", "serveStale: Verify")), "cannot combine serveStale Verify with protocol ForceTCP"},
		{"local DNS stale at once over TCP", podZone(zone("example.com", "VnetDNS", "protocol: ForceTCP", "serveStale: Immediate")), ""},
		{"local DNS unknown protocol", podZone(zone("example.com", "VnetDNS", "protocol: UDP")), `supported values: "PreferUDP", "ForceTCP"`},
		{"local DNS duration in parts", podZone(zone("example.com", "VnetDNS", "cacheDuration: 2h15m30s")), ""},
		{"local DNS duration in days", podZone(zone("example.com", "VnetDNS", "cacheDuration: 1d")), "cacheDuration"},
		{"local DNS endless duration", podZone(zone("example.com", "VnetDNS", "serveStaleDuration: Never")), "serveStaleDuration"},
		{"local DNS negative concurrency", podZone(zone("example.com", "VnetDNS", "maxConcurrent: -1")), "maxConcurrent"},
		{"local DNS without limit", podZone(zone("example.com", "VnetDNS", "maxConcurrent: 0")), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for apiVersion, gate := range gates {
				gate.expect(t, manifest(apiVersion, "AKSNodeClass", tc.spec), tc.refused)
			}
		})
	}
}

func TestAKSNodeClassDefaults(t *testing.T) {
	gate := openGate(t, "AKSNodeClass", "v1beta1")
	object := gate.expect(t, manifest("karpenter.azure.com/v1beta1", "AKSNodeClass", "gpu: {}\nkubelet: {}"), "")
	want := parse(t, `
imageFamily: Ubuntu
osDiskSizeGB: 128
gpu: {mode: Driver}
kubelet:
  cpuManagerPolicy: none
  cpuCFSQuota: true
  cpuCFSQuotaPeriod: 100ms
  topologyManagerPolicy: none
  containerLogMaxSize: 50Mi
  containerLogMaxFiles: 5
`)
	if diff := cmp.Diff(want, object["spec"]); diff != "" {
		t.Errorf("spec after defaulting (-want +got):\n%s", diff)
	}
}

func trusted(part string) string { return "security: {trustedLaunch: {" + part + ": true}}" }

func sysctls(set string) string { return "linuxOSConfig: {sysctls: {" + set + "}}" }

func localDNS(mode string, vnet, kube []string) string {
	return fmt.Sprintf("localDNS: {mode: %s, vnetDNSOverrides: [%s], kubeDNSOverrides: [%s]}",
		mode, strings.Join(vnet, ", "), strings.Join(kube, ", "))
}

// podZone is a local DNS configuration with one more zone for pods.
func podZone(z string) string { return localDNS("Required", both(), both(z)) }

// both are the two zones that must be there, and more.
func both(more ...string) []string { return append([]string{root(), cluster()}, more...) }

func root() string { return zone(".", "VnetDNS") }

func cluster() string { return zone("cluster.local", "ClusterCoreDNS") }

// zone is a complete override, with the given settings in place of the usual.
func zone(name, destination string, settings ...string) string {
	all := []string{
		"zone: " + name, "forwardDestination: " + destination, "queryLogging: Error", "protocol: PreferUDP",
		"forwardPolicy: Sequential", "maxConcurrent: 1000", "cacheDuration: 1h", "serveStaleDuration: 30m", "serveStale: Immediate",
	}
	for _, s := range settings {
		key := s[:strings.Index(s, ":")+1]
		for i := range all {
			if strings.HasPrefix(all[i], key) {
				all[i] = s
			}
		}
	}
	return "{" + strings.Join(all, ", ") + "}"
}
