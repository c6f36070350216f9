// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// The command line of the kubelet at Kubernetes 1.36 on Linux, by the type of
// each flag's value, less the flags this package reads (see bind). A kubelet
// that meets an unknown flag or an unreadable value prints its usage and exits,
// so the table decides which payloads can ever join.
const (
	stringFlags = `config config-dir kubeconfig bootstrap-kubeconfig cert-dir root-dir lock-file experimental-mounter-path
		runtime-cgroups image-credential-provider-config image-credential-provider-bin-dir pod-manifest-path manifest-url
		container-runtime-endpoint image-service-endpoint client-ca-file tls-cert-file tls-private-key-file tls-min-version
		cluster-domain volume-plugin-dir kubelet-cgroups system-cgroups cgroup-root pod-cidr resolv-conf
		container-log-max-size kube-api-content-type reserved-cpus system-reserved-cgroup kube-reserved-cgroup
		logging-format vmodule node-ip boot-id-file container-hints containerd containerd-namespace machine-id-file
		storage-driver-user storage-driver-password storage-driver-host storage-driver-db storage-driver-table
		event-storage-age-limit event-storage-event-limit log-text-info-buffer-size log-json-info-buffer-size`
	boolFlags = `seccomp-default exit-on-lock-contention enable-server fail-cgroupv1 anonymous-auth
		authentication-token-webhook rotate-server-certificates rotate-certificates enable-debugging-handlers
		contention-profiling cgroups-per-qos cpu-cfs-quota enable-controller-attach-detach
		make-iptables-util-chains kernel-memcg-notification local-storage-capacity-isolation serialize-image-pulls
		protect-kernel-defaults enable-load-reader log-cadvisor-usage storage-driver-secure log-text-split-stream
		log-json-split-stream experimental-allocatable-ignore-eviction`
	intFlags = `maximum-dead-containers-per-container maximum-dead-containers port read-only-port registry-qps
		registry-burst event-qps event-burst healthz-port oom-score-adj container-log-max-files
		node-status-max-images kube-api-qps kube-api-burst eviction-max-pod-grace-period application-metrics-count-limit`
	int64Flags    = `pod-max-pids max-open-files`
	durationFlags = `minimum-container-ttl-duration sync-frequency file-check-frequency http-check-frequency
		authentication-token-webhook-cache-ttl authorization-webhook-cache-authorized-ttl
		authorization-webhook-cache-unauthorized-ttl streaming-connection-idle-timeout node-status-update-frequency
		minimum-image-ttl-duration volume-stats-agg-period cpu-manager-reconcile-period runtime-request-timeout
		eviction-pressure-transition-period log-flush-frequency housekeeping-interval
		global-housekeeping-interval storage-driver-buffer-duration`
	listFlags    = `tls-cipher-suites allowed-unsafe-sysctls`
	pairFlags    = `qos-reserved topology-manager-policy-options cpu-manager-policy-options eviction-soft-grace-period eviction-minimum-reclaim`
	headerFlags  = `manifest-url-header`
	addressFlags = `address healthz-bind-address`
	// opaqueFlags take several words' worth of syntax of their own and have no
	// bearing on the Node.
	opaqueFlags = `reserved-memory`
)

// choiceFlags accept one of a few words.
var choiceFlags = map[string]string{
	"authorization-mode":      "AlwaysAllow Webhook",
	"cgroup-driver":           "cgroupfs systemd",
	"cpu-manager-policy":      "none static",
	"hairpin-mode":            "promiscuous-bridge hairpin-veth none",
	"memory-manager-policy":   "None Static",
	"topology-manager-policy": "none best-effort restricted single-numa-node",
	"topology-manager-scope":  "container pod",
}

// removedFlags were once flags, and the minor version of Kubernetes 1 that no
// longer knows them. Older kubelets still take them.
var removedFlags = map[string]int{
	"keep-terminated-pod-volumes":     31,
	"azure-container-registry-config": 30,
	"cloud-config":                    34,
	"pod-infra-container-image":       35,
}

// rawFlags are the values of the flags this package acts on, before they are
// understood.
type rawFlags struct {
	labels                            cliflag.ConfigurationMap
	taints, cloudProvider, providerID string
	hostname                          string
	maxPods, podsPerCore              int32
	imageGCHigh, imageGCLow           int32
	registerNode, failSwapOn, runOnce bool
	kubeReserved, systemReserved      map[string]string
	evictionHard, evictionSoft        map[string]string
	featureGates                      map[string]bool
	quotaPeriod                       time.Duration
	enforce, clusterDNS               []string
}

// parseFlags reads a kubelet command line as the given version's kubelet does.
func parseFlags(args []string, version string) (*rawFlags, error) {
	raw := &rawFlags{labels: cliflag.ConfigurationMap{}}
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.Usage = func() {}
	raw.bind(fs)
	declare(fs)
	for name, gone := range removedFlags {
		if minor(version) < gone {
			fs.String(name, "", "")
		}
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if extra := fs.Args(); len(extra) > 0 {
		return nil, fmt.Errorf("unknown command %q", extra[0])
	}
	return raw, nil
}

func (r *rawFlags) bind(fs *pflag.FlagSet) {
	fs.Var(&r.labels, "node-labels", "")
	fs.StringVar(&r.taints, "register-with-taints", "", "")
	fs.StringVar(&r.cloudProvider, "cloud-provider", "", "")
	fs.StringVar(&r.providerID, "provider-id", "", "")
	fs.StringVar(&r.hostname, "hostname-override", "", "")
	fs.Int32Var(&r.maxPods, "max-pods", 110, "")
	fs.Int32Var(&r.podsPerCore, "pods-per-core", 0, "")
	fs.Int32Var(&r.imageGCHigh, "image-gc-high-threshold", 85, "")
	fs.Int32Var(&r.imageGCLow, "image-gc-low-threshold", 80, "")
	fs.BoolVar(&r.registerNode, "register-node", true, "")
	fs.BoolVar(&r.failSwapOn, "fail-swap-on", true, "")
	fs.BoolVar(&r.runOnce, "runonce", false, "")
	fs.Var(cliflag.NewMapStringString(&r.kubeReserved), "kube-reserved", "")
	fs.Var(cliflag.NewMapStringString(&r.systemReserved), "system-reserved", "")
	fs.Var(cliflag.NewLangleSeparatedMapStringString(&r.evictionHard), "eviction-hard", "")
	fs.Var(cliflag.NewLangleSeparatedMapStringString(&r.evictionSoft), "eviction-soft", "")
	fs.Var(cliflag.NewMapStringBool(&r.featureGates), "feature-gates", "")
	fs.DurationVar(&r.quotaPeriod, "cpu-cfs-quota-period", defaultQuotaPeriod, "")
	fs.StringSliceVar(&r.enforce, "enforce-node-allocatable", []string{"pods"}, "")
	fs.StringSliceVar(&r.clusterDNS, "cluster-dns", nil, "")
}

// declare adds the flags whose values are checked and then forgotten.
func declare(fs *pflag.FlagSet) {
	each := func(names string, add func(name string)) {
		for name := range strings.FieldsSeq(names) {
			add(name)
		}
	}
	each(stringFlags, func(n string) { fs.String(n, "", "") })
	each(boolFlags, func(n string) { fs.Bool(n, false, "") })
	each(intFlags, func(n string) { fs.Int32(n, 0, "") })
	each(int64Flags, func(n string) { fs.Int64(n, 0, "") })
	each(durationFlags, func(n string) { fs.Duration(n, 0, "") })
	each(listFlags, func(n string) { fs.StringSlice(n, nil, "") })
	each(pairFlags, func(n string) { fs.Var(cliflag.NewMapStringString(new(map[string]string)), n, "") })
	each(headerFlags, func(n string) {
		fs.Var(cliflag.NewColonSeparatedMultimapStringString(new(map[string][]string)), n, "")
	})
	each(addressFlags, func(n string) { fs.Var(check(ipAddress), n, "") })
	each(opaqueFlags, func(n string) { fs.Var(check(anything), n, "") })
	fs.VarP(check(integer), "v", "v", "")
	for name, words := range choiceFlags {
		fs.Var(check(oneOf(words)), name, "")
	}
}

// check is a flag value that is only ever looked at.
type check func(string) error

func (c check) Set(s string) error { return c(s) }
func (check) String() string       { return "" }
func (check) Type() string         { return "string" }

func ipAddress(s string) error {
	if net.ParseIP(s) == nil {
		return fmt.Errorf("%q is not a valid IP address", s)
	}
	return nil
}

func anything(s string) error {
	if s == "" {
		return errors.New("the value is empty")
	}
	return nil
}

func integer(s string) error {
	_, err := strconv.ParseInt(s, 10, 32)
	return err
}

func oneOf(words string) check {
	return func(s string) error {
		for word := range strings.FieldsSeq(words) {
			if s == word {
				return nil
			}
		}
		return fmt.Errorf("%q must be one of: %s", s, words)
	}
}

// minor is the minor version of a release of Kubernetes 1, and 0 for anything else.
func minor(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	digits, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
