// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

// KubeletConfig is what a kubelet's command line makes of a Node.
type KubeletConfig struct {
	Labels map[string]string
	Taints []corev1.Taint
	// External reports that a cloud controller will finish the Node.
	External   bool
	ProviderID string
	// Hostname overrides the VM's own name; usually empty.
	Hostname string
	// MaxPods and PodsPerCore bound the number of pods; PodsPerCore 0 does not.
	MaxPods, PodsPerCore int64
	// FailsOnSwap is the kubelet's default: it does not start on a VM with swap.
	FailsOnSwap bool
	// Register is false for a kubelet that was told to stay out of the cluster.
	Register bool
	// Reserved is kube-reserved and system-reserved together.
	Reserved corev1.ResourceList
	// DNS are the servers that pods with dnsPolicy ClusterFirst ask.
	DNS      []string
	Eviction []Threshold
}

// Threshold is one hard eviction threshold: an amount, or a share of capacity
// when Fraction is not zero.
type Threshold struct {
	Signal   string
	Amount   resource.Quantity
	Fraction float64
}

// evictionSignals are what a kubelet can watch.
var evictionSignals = sets.New("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available",
	"imagefs.inodesFree", "containerfs.available", "containerfs.inodesFree", "allocatableMemory.available", "pid.available")

// defaultEviction holds on a kubelet without --eviction-hard. The flag replaces
// it whole.
var defaultEviction = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
	"imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

// reservable are the resources kube-reserved and system-reserved may name.
var reservable = sets.New("cpu", "memory", "ephemeral-storage", "pid")

// parseKubelet reads and checks a kubelet command line. Whatever it refuses, the
// kubelet refuses at start.
func parseKubelet(args []string, version string) (KubeletConfig, error) {
	raw, err := parseFlags(args, version)
	if err != nil {
		return KubeletConfig{}, err
	}
	if err := errors.Join(raw.validate(), raw.validateQuotaPeriod(minor(version))); err != nil {
		return KubeletConfig{}, err
	}
	k := KubeletConfig{
		Labels:      raw.labels,
		External:    raw.cloudProvider == "external",
		ProviderID:  raw.providerID,
		Hostname:    raw.hostname,
		MaxPods:     int64(raw.maxPods),
		PodsPerCore: int64(raw.podsPerCore),
		Register:    raw.registerNode,
		FailsOnSwap: raw.failSwapOn,
		DNS:         raw.clusterDNS,
	}
	if err := checkLabels(k.Labels); err != nil {
		return KubeletConfig{}, fmt.Errorf("--node-labels: %w", err)
	}
	if k.Taints, err = parseTaints(raw.taints); err != nil {
		return KubeletConfig{}, fmt.Errorf("--register-with-taints: %w", err)
	}
	if k.Reserved, err = reservations(raw.kubeReserved, raw.systemReserved); err != nil {
		return KubeletConfig{}, err
	}
	if raw.evictionHard == nil {
		raw.evictionHard = defaultEviction
	}
	if k.Eviction, err = thresholds(raw.evictionHard); err != nil {
		return KubeletConfig{}, fmt.Errorf("--eviction-hard: %w", err)
	}
	return k, nil
}

// validate is the part of the kubelet's validation that bootstrap payloads can
// run into.
func (r *rawFlags) validate() error {
	switch {
	case r.maxPods < 0:
		return fmt.Errorf("--max-pods %d must not be negative", r.maxPods)
	case r.podsPerCore < 0:
		return fmt.Errorf("--pods-per-core %d must not be negative", r.podsPerCore)
	case r.runOnce:
		return errors.New("--runonce has been taken out of use")
	case r.cloudProvider != "" && r.cloudProvider != "external":
		return fmt.Errorf("--cloud-provider %q: only external is left", r.cloudProvider)
	case r.imageGCHigh < 0 || r.imageGCHigh > 100 || r.imageGCLow < 0 || r.imageGCLow >= r.imageGCHigh:
		return fmt.Errorf("--image-gc-low-threshold %d must be less than --image-gc-high-threshold %d, both percentages",
			r.imageGCLow, r.imageGCHigh)
	}
	for _, server := range r.clusterDNS {
		if err := ipAddress(server); err != nil {
			return fmt.Errorf("--cluster-dns: %w", err)
		}
	}
	if slices.Contains(r.enforce, "none") && len(r.enforce) > 1 {
		return errors.New("--enforce-node-allocatable: none excludes everything else")
	}
	allowed := "none pods system-reserved system-reserved-compressible kube-reserved kube-reserved-compressible"
	for _, level := range r.enforce {
		if err := oneOf(allowed)(level); level != "" && err != nil {
			return fmt.Errorf("--enforce-node-allocatable: %w", err)
		}
	}
	return nil
}

const (
	defaultQuotaPeriod = 100 * time.Millisecond
	gateQuotaPeriod    = "CustomCPUCFSQuotaPeriod"
	// quotaPeriodFreed is the minor version from which any period is allowed.
	quotaPeriodFreed = 36
)

// validateQuotaPeriod minds the feature gate that older kubelets put before
// --cpu-cfs-quota-period.
func (r *rawFlags) validateQuotaPeriod(minor int) error {
	if minor < quotaPeriodFreed && !r.featureGates[gateQuotaPeriod] && r.quotaPeriod != defaultQuotaPeriod {
		return fmt.Errorf("--cpu-cfs-quota-period %s requires feature gate %s", r.quotaPeriod, gateQuotaPeriod)
	}
	if r.quotaPeriod < time.Millisecond || r.quotaPeriod > time.Second {
		return fmt.Errorf("--cpu-cfs-quota-period %s must be between 1ms and 1s", r.quotaPeriod)
	}
	return nil
}

// checkLabels refuses malformed labels, and those of the Kubernetes namespaces
// that a node may not give itself.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			return fmt.Errorf("invalid label key %q: %s", key, strings.Join(errs, "; "))
		}
		if errs := validation.IsValidLabelValue(labels[key]); len(errs) > 0 {
			return fmt.Errorf("invalid value %q of label %q: %s", labels[key], key, strings.Join(errs, "; "))
		}
		if isKubernetesLabel(key) && !selfAssignable(key) {
			return fmt.Errorf("unknown label %q: a node may not give itself this kubernetes.io or k8s.io label", key)
		}
	}
	return nil
}

func isKubernetesLabel(key string) bool {
	namespace := labelNamespace(key)
	return under(namespace, "kubernetes.io") || under(namespace, "k8s.io")
}

// selfAssignable is the kubelet's list of exceptions.
func selfAssignable(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
		corev1.LabelOSStable, corev1.LabelArchStable, labelBetaOS, labelBetaArch:
		return true
	}
	namespace := labelNamespace(key)
	return under(namespace, "kubelet.kubernetes.io") || under(namespace, "node.kubernetes.io")
}

func labelNamespace(key string) string {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return namespace
}

func under(namespace, domain string) bool {
	return namespace == domain || strings.HasSuffix(namespace, "."+domain)
}

func parseTaints(list string) ([]corev1.Taint, error) {
	if list == "" {
		return nil, nil
	}
	var taints []corev1.Taint
	seen := sets.New[string]()
	for spec := range strings.SplitSeq(list, ",") {
		taint, err := parseTaint(spec)
		if err != nil {
			return nil, fmt.Errorf("invalid taint %q: %w", spec, err)
		}
		if id := taint.Key + ":" + string(taint.Effect); seen.Has(id) {
			return nil, fmt.Errorf("taint %s is there twice", id)
		} else {
			seen.Insert(id)
		}
		taints = append(taints, taint)
	}
	return taints, nil
}

// parseTaint reads key=value:Effect or key:Effect.
func parseTaint(spec string) (corev1.Taint, error) {
	pair, effect, _ := strings.Cut(spec, ":")
	key, value, _ := strings.Cut(pair, "=")
	if errs := validation.IsQualifiedName(key); len(errs) > 0 {
		return corev1.Taint{}, errors.New(strings.Join(errs, "; "))
	}
	if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
		return corev1.Taint{}, errors.New(strings.Join(errs, "; "))
	}
	switch e := corev1.TaintEffect(effect); e {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return corev1.Taint{Key: key, Value: value, Effect: e}, nil
	}
	return corev1.Taint{}, fmt.Errorf("unsupported effect %q", effect)
}

func reservations(kube, system map[string]string) (corev1.ResourceList, error) {
	total := corev1.ResourceList{}
	for flag, values := range map[string]map[string]string{"--kube-reserved": kube, "--system-reserved": system} {
		for name, text := range values {
			if !reservable.Has(name) {
				return nil, fmt.Errorf("%s: cannot reserve %q", flag, name)
			}
			q, err := resource.ParseQuantity(text)
			if err != nil || q.Sign() < 0 {
				return nil, fmt.Errorf("%s: %s=%q is no quantity to reserve", flag, name, text)
			}
			sum := total[corev1.ResourceName(name)]
			sum.Add(q)
			total[corev1.ResourceName(name)] = sum
		}
	}
	return total, nil
}

func thresholds(values map[string]string) ([]Threshold, error) {
	var list []Threshold
	for _, signal := range slices.Sorted(maps.Keys(values)) {
		if !evictionSignals.Has(signal) {
			return nil, fmt.Errorf("unknown signal %q", signal)
		}
		t, err := parseThreshold(values[signal])
		if err != nil {
			return nil, fmt.Errorf("%s<%s: %w", signal, values[signal], err)
		}
		t.Signal = signal
		list = append(list, t)
	}
	return list, nil
}

func parseThreshold(text string) (Threshold, error) {
	percent, isPercent := strings.CutSuffix(text, "%")
	if !isPercent {
		q, err := resource.ParseQuantity(text)
		if err == nil && q.Sign() < 0 {
			err = errors.New("it is negative")
		}
		return Threshold{Amount: q}, err
	}
	share, err := strconv.ParseFloat(percent, 32)
	if err == nil && !(share >= 0 && share <= 100) {
		err = errors.New("it is outside 0% to 100%")
	}
	return Threshold{Fraction: share / 100}, err
}
