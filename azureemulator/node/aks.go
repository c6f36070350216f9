// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/karve-dev/karve/azureemulator"
)

// Cluster is what AKS knows of its cluster and tells the machines that it makes itself.
// The zero Cluster can be joined by none of them.
type Cluster struct {
	// Server is the URL of the API server, on port 443.
	Server string
	// CA is the cluster's certificate authority in PEM.
	CA []byte
	// Token is a bootstrap token. It is a secret.
	Token string
}

// errNoCluster fails an AKS machine for which no cluster to join is configured.
var errNoCluster = errors.New("AKS made this machine, and was not told of a cluster that it could join")

// bootstrap is what AKS starts the provisioning script of its own machine with. What
// the machine's profile asks for goes through the same checks as a payload.
func (c Cluster) bootstrap(m azureemulator.VM) (Payload, error) {
	if c.Server == "" || c.Token == "" {
		return Payload{}, errNoCluster
	}
	return readEnvironment(c.environment(m))
}

func (c Cluster) environment(m azureemulator.VM) map[string]string {
	p := m.Node
	env := map[string]string{
		"API_SERVER_NAME":     c.serverName(),
		"KUBE_CA_CRT":         base64.StdEncoding.EncodeToString(c.CA),
		"TLS_BOOTSTRAP_TOKEN": c.Token,
		"KUBERNETES_VERSION":  p.Kubernetes.OrchestratorVersion,
		"KUBELET_NODE_LABELS": pairs(nodeLabels(m)),
		"KUBELET_FLAGS":       strings.Join(kubeletFlags(m), " "),
	}
	// AKS installs the driver unless it is told not to. The scripts hear of no GPU then.
	driver := strconv.FormatBool(hasNVIDIA(m.Size) && !strings.EqualFold(p.Hardware.GPUProfile.Driver, "None"))
	env["GPU_NODE"], env["CONFIG_GPU_DRIVER_IF_NEEDED"] = driver, driver
	maps.Copy(env, systemSettings(p.OperatingSystem.LinuxProfile.LinuxOSConfig))
	if dnsCache(p) {
		env["SHOULD_ENABLE_LOCALDNS"] = "true"
		env["LOCALDNS_GENERATED_COREFILE"] = base64.StdEncoding.EncodeToString([]byte(".:53 { }\n"))
	}
	return env
}

// serverName is the host of the API server, which is all that AKS tells its machines of it.
func (c Cluster) serverName() string {
	u, err := url.Parse(c.Server)
	if err != nil {
		return c.Server // the image says what is wrong with it
	}
	return u.Hostname()
}

func dnsCache(p *azureemulator.NodeProfile) bool {
	return strings.EqualFold(p.LocalDNSProfile.Mode, "Required")
}

// nodeLabels are the client's and AKS's own, which win.
func nodeLabels(m azureemulator.VM) map[string]string {
	p := m.Node
	labels := maps.Clone(p.Kubernetes.NodeLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	const domain = "kubernetes.azure.com/"
	maps.Copy(labels, map[string]string{
		"agentpool": p.Pool, domain + "agentpool": p.Pool, domain + "cluster": p.Cluster, domain + "role": "agent",
		domain + "mode": strings.ToLower(withDefault(p.Mode, "user")), domain + "os-sku": withDefault(p.OperatingSystem.OSSKU, "Ubuntu"),
	})
	if p.NodeImageVersion != "" {
		labels[domain+"node-image-version"] = p.NodeImageVersion
	}
	if strings.EqualFold(m.Priority, "Spot") {
		labels[domain+"scalesetpriority"] = "spot"
	}
	return labels
}

func withDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// pairs writes name=value,… in order.
func pairs(m map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, key+"="+m[key])
	}
	return strings.Join(words, ",")
}

// overlayPods is how many pods AKS lets a node of an overlay network have unless maxPods is set.
const overlayPods = 250

// kubeletFlags are those that AKS starts its nodes' kubelets with, as far as they show on
// a Node, and the client's settings.
func kubeletFlags(m azureemulator.VM) []string {
	p := m.Node
	pods := p.Kubernetes.MaxPods
	if pods == 0 {
		pods = overlayPods
	}
	version, dns := minor(p.Kubernetes.OrchestratorVersion), "10.0.0.10"
	if dnsCache(p) {
		dns = cacheForPods
	}
	cpu, memory, spare := aksReservation(int64(m.Size.VCPUsAvailable), m.Size.MemoryGiB, pods, version)
	flags := []string{
		"--cloud-provider=external", "--cluster-dns=" + dns, fmt.Sprintf("--max-pods=%d", pods),
		fmt.Sprintf("--kube-reserved=cpu=%dm,memory=%dMi,pid=1000", cpu, memory),
		fmt.Sprintf("--eviction-hard=memory.available<%dMi,nodefs.available<10%%,nodefs.inodesFree<5%%,pid.available<2000", spare),
	}
	if taints := slices.Concat(p.Kubernetes.NodeInitializationTaints, p.Kubernetes.NodeTaints); len(taints) > 0 {
		flags = append(flags, "--register-with-taints="+strings.Join(taints, ","))
	}
	return append(flags, chosen(p.Kubernetes.KubeletConfig, version)...)
}

// aksReservation is AKS's published rule: 6, 4, 2, 2 and then 1 % of the cores; of the
// memory, 20 MiB for each pod and 50 MiB, a quarter at most. Before 1.29 there was a table.
func aksReservation(cores int64, memoryGiB float64, pods int64, version int) (milliCPU, memoryMiB, spareMiB int64) {
	for core := range cores {
		milliCPU += []int64{60, 40, 20, 20, 10}[min(core, 4)]
	}
	if version >= 29 {
		return milliCPU, min(20*pods+50, int64(memoryGiB*1024/4)), 100
	}
	left, due := memoryGiB*1024, 0.0
	for _, step := range []struct{ width, share float64 }{{4 << 10, .25}, {4 << 10, .20}, {8 << 10, .10}, {112 << 10, .06}, {left, .02}} {
		part := min(left, step.width)
		due, left = due+part*step.share, left-part
	}
	return milliCPU, int64(due), 750
}

// chosen are a client's settings as flags.
func chosen(k azureemulator.KubeletSettings, version int) []string {
	var flags []string
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+"="+value)
		}
	}
	add("allowed-unsafe-sysctls", strings.Join(k.AllowedUnsafeSysctls, ","))
	add("container-log-max-files", written(k.ContainerLogMaxFiles))
	if k.ContainerLogMaxSizeMB != nil {
		add("container-log-max-size", written(k.ContainerLogMaxSizeMB)+"M")
	}
	add("cpu-cfs-quota", written(k.CPUCfsQuota))
	add("cpu-cfs-quota-period", k.CPUCfsQuotaPeriod)
	if k.CPUCfsQuotaPeriod != "" && version < quotaPeriodFreed {
		add("feature-gates", gateQuotaPeriod+"=true")
	}
	add("cpu-manager-policy", k.CPUManagerPolicy)
	add("fail-swap-on", written(k.FailSwapOn))
	add("image-gc-high-threshold", written(k.ImageGcHighThreshold))
	add("image-gc-low-threshold", written(k.ImageGcLowThreshold))
	add("pod-max-pids", written(k.PodMaxPids))
	add("topology-manager-policy", k.TopologyManagerPolicy)
	return flags
}

// written is a value as text; empty when there is none.
func written[T any](value *T) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(*value)
}

func systemSettings(s azureemulator.LinuxSettings) map[string]string {
	env := map[string]string{
		"SHOULD_CONFIG_SWAP_FILE": strconv.FormatBool(s.SwapFileSizeMB > 0), "SWAP_FILE_SIZE_MB": strconv.FormatInt(s.SwapFileSizeMB, 10),
		"SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE": strconv.FormatBool(s.TransparentHugePageEnabled+s.TransparentHugePageDefrag != ""),
		"THP_ENABLED":                         s.TransparentHugePageEnabled, "THP_DEFRAG": s.TransparentHugePageDefrag,
	}
	var lines strings.Builder
	for _, field := range slices.Sorted(maps.Keys(s.Sysctls)) {
		if name := kernelName(snake(field)); name != "" && s.Sysctls[field] != nil {
			fmt.Fprintf(&lines, "%s=%s\n", name, kernelValue(s.Sysctls[field]))
		}
	}
	env["SYSCTL_CONTENT"] = base64.StdEncoding.EncodeToString([]byte(lines.String()))
	return env
}

// kernelValue writes what JSON has as a number, a text or a yes.
func kernelValue(v any) string {
	switch v := v.(type) {
	case bool:
		return map[bool]string{true: "1", false: "0"}[v]
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// snake writes netCoreSomaxconn as net_core_somaxconn.
func snake(field string) string {
	var b strings.Builder
	for _, c := range field {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
