// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/karve-dev/karve/api/v1beta1"
)

// Addresses of the DNS cache on every node, and of Azure's own DNS
// (aks-node-controller/parser/consts.go).
const (
	localDNSForNode = "169.254.10.10" // used by the kubelet and pods with dnsPolicy Default
	localDNSForPods = "169.254.10.11" // used by pods with dnsPolicy ClusterFirst
	azureDNS        = "168.63.129.16"
)

// Limits of the cache, AKS's defaults.
const (
	localDNSCPUMilli = 2000
	localDNSMemoryMB = 128
)

// podDNS returns the DNS server of pods with dnsPolicy ClusterFirst: the node's cache if it runs
// one. karve must set it in the kubelet's flags, as the image only starts the cache.
func (n *NodeConfig) podDNS() string {
	if n.LocalDNS != nil {
		return localDNSForPods
	}
	return n.DNS
}

// zoneForm is the API's pattern: a zone becomes a word of the cache's configuration.
var zoneForm = regexp.MustCompile(`^(\.|[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)*\.?)$`)

// checkLocalDNS returns an error for settings that the API server rejects: the class may not have
// passed its validation.
func checkLocalDNS(d *v1beta1.LocalDNS) error {
	if d == nil {
		return nil
	}
	return errors.Join(checkZones("vnetDNSOverrides", d.VnetDNSOverrides), checkZones("kubeDNSOverrides", d.KubeDNSOverrides))
}

func checkZones(list string, zones []v1beta1.LocalDNSZoneOverride) error {
	var errs []error
	seen := map[string]bool{}
	for i := range zones {
		z := &zones[i]
		refuse := func(bad bool, what string) {
			if bad {
				errs = append(errs, fmt.Errorf("localDNS.%s: zone %q: %s", list, z.Zone, what))
			}
		}
		refuse(!zoneForm.MatchString(z.Zone) || len(z.Zone) > 254, "is no DNS zone")
		refuse(seen[z.Zone], "is there twice")
		refuse(!known(z.QueryLogging, "Error", "Log"), "queryLogging is unknown")
		refuse(!known(z.Protocol, "PreferUDP", "ForceTCP"), "protocol is unknown")
		refuse(!known(z.ForwardDestination, "ClusterCoreDNS", "VnetDNS"), "forwardDestination is unknown")
		refuse(!known(z.ForwardPolicy, "Sequential", "RoundRobin", "Random"), "forwardPolicy is unknown")
		refuse(!known(z.ServeStale, "Verify", "Immediate", "Disable"), "serveStale is unknown")
		refuse(z.MaxConcurrent == nil || *z.MaxConcurrent < 0, "maxConcurrent is missing or negative")
		refuse(!wholeSeconds(z.CacheDuration) || !wholeSeconds(z.ServeStaleDuration), "a duration is missing, negative or longer than a year")
		seen[z.Zone] = true
	}
	if !seen["."] || !seen["cluster.local"] {
		errs = append(errs, fmt.Errorf(`localDNS.%s lacks the zone "." or "cluster.local"`, list))
	}
	return errors.Join(errs...)
}

func known[T ~string](value T, all ...T) bool { return slices.Contains(all, value) }

func wholeSeconds(d v1beta1.NillableDuration) bool {
	return d.Duration != nil && *d.Duration >= 0 && *d.Duration < 366*24*time.Hour
}

func seconds(d v1beta1.NillableDuration) int32 { return int32(d.Duration.Seconds()) }

// corefile configures the cache, a CoreDNS, for images that expect the file.
func (n *NodeConfig) corefile() string {
	var b strings.Builder
	fmt.Fprintf(&b, "health-check.localdns.local:53 {\n    bind %s %s\n    whoami\n}\n", localDNSForNode, localDNSForPods)
	for _, z := range sorted(n.LocalDNS.VnetDNSOverrides) {
		n.writeZone(&b, &z, localDNSForNode, "localdns", z.Zone != ".")
	}
	for _, z := range sorted(n.LocalDNS.KubeDNSOverrides) {
		n.writeZone(&b, &z, localDNSForPods, "localdns-pod", true)
	}
	return b.String()
}

func sorted(zones []v1beta1.LocalDNSZoneOverride) []v1beta1.LocalDNSZoneOverride {
	return slices.SortedFunc(slices.Values(zones), func(a, b v1beta1.LocalDNSZoneOverride) int { return cmp.Compare(a.Zone, b.Zone) })
}

// writeZone writes the server block of a zone. Queries of the node itself for the root zone are
// never forwarded to the cluster's DNS, which would forward them to the node again.
func (n *NodeConfig) writeZone(b *strings.Builder, z *v1beta1.LocalDNSZoneOverride, address, id string, mayAskCluster bool) {
	line := func(indent int, format string, args ...any) {
		fmt.Fprintf(b, strings.Repeat("    ", indent)+format+"\n", args...)
	}
	line(0, "%s:53 {", z.Zone)
	line(1, "%s", map[v1beta1.LocalDNSQueryLogging]string{"Error": "errors", "Log": "log"}[z.QueryLogging])
	line(1, "bind %s", address)
	server := azureDNS
	if mayAskCluster && (z.ForwardDestination == v1beta1.LocalDNSForwardDestinationClusterCoreDNS || strings.HasSuffix(z.Zone, "cluster.local")) {
		server = n.DNS
	}
	line(1, "forward . %s {", server)
	line(2, "%s", map[v1beta1.LocalDNSProtocol]string{"ForceTCP": "force_tcp", "PreferUDP": "prefer_udp"}[z.Protocol])
	line(2, "policy %s", map[v1beta1.LocalDNSForwardPolicy]string{"Sequential": "sequential", "RoundRobin": "round_robin", "Random": "random"}[z.ForwardPolicy])
	line(2, "max_concurrent %d", *z.MaxConcurrent)
	line(1, "}")
	line(1, "ready %s:8181", address)
	line(1, "cache %d {", seconds(z.CacheDuration))
	line(2, "success 9984")
	line(2, "denial 9984")
	if z.ServeStale != v1beta1.LocalDNSServeStaleDisable {
		line(2, "serve_stale %ds %s", seconds(z.ServeStaleDuration), strings.ToLower(string(z.ServeStale)))
	}
	line(2, "servfail 0")
	line(1, "}")
	line(1, "loop")
	line(1, "nsid %s", id)
	line(1, "prometheus :9253")
	if z.Zone == "." {
		// No server knows these search domains of Azure, so queries for them are not forwarded.
		line(1, "template ANY ANY internal.cloudapp.net {")
		line(2, `match "^(?:[^.]+\.){4,}internal\.cloudapp\.net\.$"`)
		line(2, "rcode NXDOMAIN")
		line(2, "fallthrough")
		line(1, "}")
		line(1, "template ANY ANY reddog.microsoft.com {")
		line(2, "rcode NXDOMAIN")
		line(1, "}")
	}
	line(0, "}")
}
