// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
)

// flagValue matches valid values of kubelet flags: the image writes all flags into one line of a
// unit's environment, and splits it at white space.
var flagValue = regexp.MustCompile(`^[A-Za-z0-9_.,:=/<%*+\[\]-]*$`)

// kubeletFlags returns the kubelet's flags by name, without dashes.
func (n *NodeConfig) kubeletFlags() (map[string]string, error) {
	flags := n.baseFlags()
	taints, err := registerTaints(n.Taints)
	if err != nil {
		return nil, err
	}
	flags["register-with-taints"] = taints
	n.versionFlags(flags)
	if n.Kubelet != nil {
		userFlags(flags, n.Kubelet)
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if !flagValue.MatchString(flags[name]) {
			return nil, fmt.Errorf("kubelet flag %s: %q cannot be written into a unit", name, flags[name])
		}
	}
	return flags, nil
}

// checkLabels returns an error for labels that the kubelet would reject at boot, where the error
// is hard to find.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			return fmt.Errorf("node label %q: %s", key, errs[0])
		}
		if errs := validation.IsValidLabelValue(labels[key]); len(errs) > 0 {
			return fmt.Errorf("node label %s=%q: %s", key, labels[key], errs[0])
		}
	}
	return nil
}

// pairs writes a map as name=value, sorted by name.
func pairs(m map[string]string, prefix, separator string) string {
	words := make([]string, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		words = append(words, prefix+name+"="+m[name])
	}
	return strings.Join(words, separator)
}

func (n *NodeConfig) baseFlags() map[string]string {
	return map[string]string{
		"address":                      "0.0.0.0",
		"anonymous-auth":               "false",
		"authentication-token-webhook": "true",
		"authorization-mode":           "Webhook",
		"cgroup-driver":                "systemd",
		"cgroups-per-qos":              "true",
		"client-ca-file":               "/etc/kubernetes/certs/ca.crt",
		"cloud-provider":               "external",
		"cluster-dns":                  n.podDNS(),
		"cluster-domain":               "cluster.local",
		"container-log-max-size":       "50M",
		"enforce-node-allocatable":     "pods",
		"event-qps":                    "0",
		"eviction-hard":                n.Overhead.evictionHard(),
		"image-gc-high-threshold":      strconv.Itoa(usualGCHigh),
		"image-gc-low-threshold":       strconv.Itoa(usualGCLow),
		"kube-reserved":                n.Overhead.kubeReserved(),
		"max-pods":                     strconv.FormatInt(n.MaxPods, 10),
		"node-status-update-frequency": "10s",
		"pod-manifest-path":            "/etc/kubernetes/manifests",
		"pod-max-pids":                 "-1",
		"protect-kernel-defaults":      "true",
		"read-only-port":               "0",
		"resolv-conf":                  "/run/systemd/resolve/resolv.conf",
		"rotate-certificates":          "true",
		"tls-cert-file":                "/etc/kubernetes/certs/kubeletserver.crt",
		"tls-cipher-suites":            strings.Join(cipherSuites(), ","),
		"tls-private-key-file":         "/etc/kubernetes/certs/kubeletserver.key",
	}
}

func cipherSuites() []string {
	return []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		"TLS_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_RSA_WITH_AES_128_GCM_SHA256",
	}
}

// evictionHard sets AKS's disk thresholds together with that of memory: the flag replaces all of
// the kubelet's defaults.
func (r Overhead) evictionHard() string {
	return fmt.Sprintf("memory.available<%dMi,nodefs.available<10%%,nodefs.inodesFree<5%%,pid.available<2000", r.EvictionMiB)
}

func (r Overhead) kubeReserved() string {
	return fmt.Sprintf("cpu=%dm,memory=%dMi,pid=1000", r.MilliCPU, r.MemoryMiB)
}

// versionFlags adds flags that only some kubelet versions know: a kubelet exits on an unknown
// flag.
func (n *NodeConfig) versionFlags(flags map[string]string) {
	minor := n.minor()
	if minor < 31 {
		flags["keep-terminated-pod-volumes"] = "false"
	}
	if minor < 34 {
		flags["cloud-config"] = "/etc/kubernetes/azure.json"
		flags["streaming-connection-idle-timeout"] = "4h"
	}
	if minor < 35 {
		flags["pod-infra-container-image"] = n.pauseImage()
	}
	if minor < 30 {
		flags["azure-container-registry-config"] = "/etc/kubernetes/azure.json"
		return
	}
	flags["image-credential-provider-bin-dir"] = "/var/lib/kubelet/credential-provider"
	flags["image-credential-provider-config"] = "/var/lib/kubelet/credential-provider-config.yaml"
}

// usualQuotaPeriod is the kubelet's default CFS quota period.
const usualQuotaPeriod = 100 * time.Millisecond

// userFlags applies all settings of a class's kubelet section.
func userFlags(flags map[string]string, k *v1beta1.KubeletConfiguration) {
	set(flags, "cpu-manager-policy", k.CPUManagerPolicy)
	set(flags, "cpu-cfs-quota", k.CPUCFSQuota)
	if period := k.CPUCFSQuotaPeriod; period != nil && period.Duration != usualQuotaPeriod {
		flags["cpu-cfs-quota-period"] = period.Duration.String()
		flags["feature-gates"] = "CustomCPUCFSQuotaPeriod=true" // required by the flag
	}
	high, low := ImageGC(k)
	set(flags, "image-gc-high-threshold", high)
	set(flags, "image-gc-low-threshold", low)
	set(flags, "topology-manager-policy", k.TopologyManagerPolicy)
	if len(k.AllowedUnsafeSysctls) > 0 {
		flags["allowed-unsafe-sysctls"] = strings.Join(slices.Sorted(slices.Values(k.AllowedUnsafeSysctls)), ",")
	}
	set(flags, "container-log-max-size", k.ContainerLogMaxSize)
	set(flags, "container-log-max-files", k.ContainerLogMaxFiles)
	set(flags, "pod-max-pids", k.PodPidsLimit)
	set(flags, "fail-swap-on", k.FailSwapOn)
}

// usualGCHigh and usualGCLow are the image collection thresholds of nodes whose class sets none,
// in percent of the disk.
const usualGCHigh, usualGCLow = 85, 80

// ImageGC returns the class's thresholds of image collection, in percent of the disk; nil for one
// that the class does not set. When a class sets only one and sets it beyond the default of the
// other, the other moves too, to five below or above: a kubelet whose low threshold is not below
// the high one does not start.
func ImageGC(k *v1beta1.KubeletConfiguration) (high, low *int32) {
	high, low = k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent
	switch {
	case low == nil && high != nil && *high <= usualGCLow:
		below := max(*high-5, 0)
		low = &below
	case high == nil && low != nil && *low >= usualGCHigh:
		above := min(*low+5, 100)
		high = &above
	}
	return high, low
}

// set writes a flag that the user has set.
func set[T any](flags map[string]string, name string, value *T) {
	if value != nil {
		flags[name] = fmt.Sprint(*value)
	}
}

// registerTaints writes taints in the kubelet's format, without duplicates, sorted by key and
// effect.
func registerTaints(taints []provider.Taint) (string, error) {
	var words []string
	for _, t := range taints {
		if err := checkTaint(t); err != nil {
			return "", err
		}
		words = append(words, t.Key+"="+t.Value+":"+t.Effect)
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ","), nil
}

func checkTaint(t provider.Taint) error {
	if errs := validation.IsQualifiedName(t.Key); len(errs) > 0 {
		return fmt.Errorf("taint %q: %s", t.Key, errs[0])
	}
	if errs := validation.IsValidLabelValue(t.Value); len(errs) > 0 {
		return fmt.Errorf("taint %s=%q: %s", t.Key, t.Value, errs[0])
	}
	switch t.Effect {
	case "NoSchedule", "PreferNoSchedule", "NoExecute":
		return nil
	}
	return fmt.Errorf("taint %s: effect %q is none of NoSchedule, PreferNoSchedule, NoExecute", t.Key, t.Effect)
}
