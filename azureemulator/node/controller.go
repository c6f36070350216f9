// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
	"sigs.k8s.io/yaml"
)

// The node controller of an image, which starts the provisioning script with an
// environment that it makes from a document (Azure/AgentBaker, aks-node-controller).
const (
	controllerConfig   = "/opt/azure/containers/aks-node-controller-config.json"
	controllerLauncher = "/opt/azure/containers/aks-node-controller-launcher.sh"
	controllerUnit     = "aks-node-controller.service"
)

// Build dates of images, YYYYMMDD: the first whose controller takes version v1 of
// the document, and the first with a launcher.
const (
	controllerSince = 20250212
	launcherSince   = 20260727
)

// built is when the image was built; the far future when its version does not tell.
func (m *bootedVM) built() int {
	month, rest, _ := strings.Cut(m.version, ".")
	day, _, _ := strings.Cut(rest, ".")
	date, err := strconv.Atoi(month + day)
	if err != nil || len(month) != 6 || len(day) != 2 {
		return 99999999
	}
	return date
}

// imageVersion is the last part of an image's id.
func imageVersion(id string) string { return id[strings.LastIndex(id, "/")+1:] }

func (m *bootedVM) hasLauncher() bool { return m.built() >= launcherSince }

func (m *bootedVM) startController() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.controller = true
}

func (m *bootedVM) controllerStarted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.controller
}

// systemctl knows one unit. All others start in silence.
func (m *bootedVM) systemctl(args []string) {
	if slices.Contains(args, "start") && slices.Contains(args, controllerUnit) && m.built() >= controllerSince {
		m.startController()
	}
}

// base64Decode is the program base64 with -d: it passes over line breaks only.
func base64Decode(ctx context.Context, args []string) error {
	streams := interp.HandlerCtx(ctx)
	if !slices.Contains(args, "-d") && !slices.Contains(args, "--decode") || streams.Stdin == nil {
		return interp.ExitStatus(1)
	}
	text, err := io.ReadAll(io.LimitReader(streams.Stdin, maxScript))
	if err != nil {
		return interp.ExitStatus(1)
	}
	data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if _, failed := streams.Stdout.Write(data); err != nil || failed != nil {
		return interp.ExitStatus(1)
	}
	return nil
}

// isMultipart tells as cloud-init does: by the first header.
func isMultipart(data []byte) bool {
	start := bytes.ToLower(data[:min(len(data), 32)])
	return bytes.HasPrefix(start, []byte("mime-version:")) || bytes.HasPrefix(start, []byte("content-type: multipart"))
}

// bootHooks are the scripts in a multipart document, in order. Other parts must be
// what their type says.
func bootHooks(data []byte) ([][]byte, error) {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading customData as a mail: %w", err)
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" {
		return nil, fmt.Errorf("customData has the content type %q where multipart/mixed belongs", message.Header.Get("Content-Type"))
	}
	var scripts [][]byte
	for parts := multipart.NewReader(message.Body, params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return scripts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a part of customData: %w", err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, fmt.Errorf("reading a part of customData: %w", err)
		}
		switch kind := part.Header.Get("Content-Type"); kind {
		case "text/cloud-boothook", "text/x-shellscript":
			scripts = append(scripts, text)
		case "text/cloud-config":
			if err := checkCloudConfig(text); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("customData has a part of type %q, which this VM does not handle", kind)
		}
	}
}

func checkCloudConfig(text []byte) error {
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("reading the cloud-config part of customData: %w", err)
	}
	if !bytes.HasPrefix(text, []byte("#cloud-config")) {
		return errors.New("the cloud-config part of customData does not start with #cloud-config")
	}
	return nil
}

// controllerEnvironment is what the node controller makes of the document on disk.
func (m *bootedVM) controllerEnvironment() (map[string]string, error) {
	m.mu.Lock()
	file := m.files[controllerConfig]
	m.mu.Unlock()
	if file == nil || file.Len() == 0 {
		return nil, errors.New("the node controller was started without " + controllerConfig)
	}
	env, err := readDocument(file.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the node controller cannot read its configuration: %w", err)
	}
	return env, nil
}

// document is a configuration, with what was found wrong with it so far. Fields have
// the names of the .proto files and protobuf's types: a number is not a text, and
// neither is a flag.
type document struct {
	root map[string]any
	errs []error
}

func readDocument(data []byte) (map[string]string, error) {
	d := &document{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&d.root); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", withoutText(err))
	}
	if version := d.text("version"); version != "v1" {
		return nil, fmt.Errorf("unsupported version: %q", version)
	}
	d.require("auth_config.subscription_id", "cluster_config.resource_group", "cluster_config.location",
		"cluster_config.cluster_network_config.vnet_name", "api_server_config.api_server_name")
	env := d.environment()
	return env, errors.Join(d.errs...)
}

// withoutText drops the text from an error about JSON: it may hold the token.
func withoutText(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("at byte %d", syntax.Offset)
	}
	return errors.New("it has another form")
}

func (d *document) at(path string) any {
	var at any = d.root
	for name := range strings.SplitSeq(path, ".") {
		o, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = o[name]
	}
	return at
}

// read gives the field, or the zero value when it is not there.
func read[T any](d *document, path string) T {
	var zero T
	value := d.at(path)
	if value == nil {
		return zero
	}
	typed, ok := value.(T)
	if !ok {
		d.errs = append(d.errs, fmt.Errorf("%s has the wrong type", path))
	}
	return typed
}

func (d *document) text(path string) string { return read[string](d, path) }
func (d *document) flag(path string) string { return strconv.FormatBool(read[bool](d, path)) }

// number is a 32-bit one.
func (d *document) number(path string) int64 {
	text := read[json.Number](d, path)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s is no 32-bit number", path))
	}
	return n
}

// enum is a value by its name in the .proto file, without the prefix that all have.
func (d *document) enum(path, prefix string, known ...string) string {
	text := d.text(path)
	value := strings.ToLower(strings.TrimPrefix(text, prefix))
	if text != "" && (!strings.HasPrefix(text, prefix) || !slices.Contains(known, value)) {
		return "" // another age's value: passed over
	}
	return value
}

// texts is a map, written as name=value in order.
func (d *document) texts(path, separator string) string {
	var words []string
	m := read[map[string]any](d, path)
	for _, name := range slices.Sorted(maps.Keys(m)) {
		value, ok := m[name].(string)
		if !ok {
			d.errs = append(d.errs, fmt.Errorf("%s: a value is no text", path))
		}
		words = append(words, name+"="+value)
	}
	return strings.Join(words, separator)
}

func (d *document) require(paths ...string) {
	for _, path := range paths {
		if d.text(path) == "" {
			d.errs = append(d.errs, fmt.Errorf("required field %s is missing", path))
		}
	}
}

// environment is what the controller starts provisioning with, but for what it
// learns from the image: drivers and the configuration of containerd.
func (d *document) environment() map[string]string {
	env := map[string]string{}
	for name, path := range textFields() {
		env[name] = d.text(path)
	}
	for name, path := range flagFields() {
		env[name] = d.flag(path)
	}
	maps.Copy(env, constants())
	d.cluster(env)
	d.cloud(env)
	d.system(env)
	d.cache(env)
	env["KUBELET_FLAGS"] = d.texts("kubelet_config.kubelet_flags", " ")
	env["KUBELET_NODE_LABELS"] = d.texts("kubelet_config.kubelet_node_labels", ",")
	return env
}

func textFields() map[string]string {
	const network, binaries = "cluster_config.cluster_network_config.", "kube_binary_config."
	return map[string]string{
		"ADMINUSER": "linux_admin_username", "TENANT_ID": "auth_config.tenant_id", "KUBERNETES_VERSION": "kubernetes_version",
		"KUBE_BINARY_URL": binaries + "kube_binary_url", "CUSTOM_KUBE_BINARY_URL": binaries + "custom_kube_binary_url",
		"PRIVATE_KUBE_BINARY_URL": binaries + "private_kube_binary_url", "CREDENTIAL_PROVIDER_DOWNLOAD_URL": binaries + "linux_credential_provider_url",
		"SUBSCRIPTION_ID": "auth_config.subscription_id", "RESOURCE_GROUP": "cluster_config.resource_group", "LOCATION": "cluster_config.location",
		"SUBNET": network + "subnet", "NETWORK_SECURITY_GROUP": network + "security_group_name", "VIRTUAL_NETWORK": network + "vnet_name",
		"VIRTUAL_NETWORK_RESOURCE_GROUP": network + "vnet_resource_group", "ROUTE_TABLE": network + "route_table",
		"SERVICE_PRINCIPAL_CLIENT_ID": "auth_config.service_principal_id", "USER_ASSIGNED_IDENTITY_ID": "auth_config.assigned_identity_id",
		"API_SERVER_NAME": "api_server_config.api_server_name", "APISERVER_PUBLIC_KEY": "api_server_config.api_server_public_key",
		"TLS_BOOTSTRAP_TOKEN": "bootstrapping_config.tls_bootstrapping_token", "KUBE_CA_CRT": "kubernetes_ca_cert",
		"THP_ENABLED": "custom_linux_os_config.transparent_hugepage_support", "THP_DEFRAG": "custom_linux_os_config.transparent_defrag",
		"CUSTOM_ENV_JSON": "custom_cloud_config.custom_env_json_content", "REPO_DEPOT_ENDPOINT": "custom_cloud_config.repo_depot_endpoint",
		"AKS_CUSTOM_CLOUD_CONTAINER_REGISTRY_DNS_SUFFIX": "custom_cloud_config.container_registry_dns_suffix",
		"MESSAGE_OF_THE_DAY":                             "message_of_the_day", "OUTBOUND_COMMAND": "outbound_command", "GPU_INSTANCE_PROFILE": "gpu_config.gpu_instance_profile",
	}
}

func flagFields() map[string]string {
	return map[string]string{
		"USE_MANAGED_IDENTITY_EXTENSION": "auth_config.use_managed_identity_extension", "USE_INSTANCE_METADATA": "cluster_config.use_instance_metadata",
		"LOAD_BALANCER_DISABLE_OUTBOUND_SNAT": "cluster_config.load_balancer_config.disable_outbound_snat", "GPU_NODE": "gpu_config.enable_nvidia",
		"CONFIG_GPU_DRIVER_IF_NEEDED": "gpu_config.config_gpu_driver", "ENABLE_GPU_DEVICE_PLUGIN_IF_NEEDED": "gpu_config.gpu_device_plugin",
		"MANAGED_GPU_EXPERIENCE_AFEC_ENABLED": "gpu_config.managed_gpu_experience_afec_enabled", "ENABLE_MANAGED_GPU": "gpu_config.enable_managed_gpu",
		"ENABLE_MANAGED_GPU_DRA": "gpu_config.enable_managed_gpu_dra", "ENABLE_HOSTS_CONFIG_AGENT": "enable_hosts_config_agent",
		"IPV6_DUAL_STACK_ENABLED": "ipv6_dual_stack_enabled", "ENABLE_UNATTENDED_UPGRADES": "enable_unattended_upgrade",
		"KUBELET_CONFIG_FILE_ENABLED": "kubelet_config.enable_kubelet_config_file", "NEEDS_CGROUPV2": "needs_cgroupv2", "IS_KATA": "is_kata",
		"ARTIFACT_STREAMING_ENABLED": "enable_artifact_streaming", "PRE_PROVISION_ONLY": "pre_provision_only",
		"ENABLE_IMDS_RESTRICTION":                      "imds_restriction_config.enable_imds_restriction",
		"INSERT_IMDS_RESTRICTION_RULE_TO_MANGLE_TABLE": "imds_restriction_config.insert_imds_restriction_rule_to_mangle_table",
		"SHOULD_ENABLE_LOCALDNS":                       "local_dns_profile.enable_local_dns", "DISABLE_PUBKEY_AUTH": "disable_pubkey_auth",
		"SERVICE_ACCOUNT_IMAGE_PULL_ENABLED": "service_account_image_pull_profile.enabled",
	}
}

// constants are the same whatever the document says.
func constants() map[string]string {
	const scripts = "/opt/azure/containers/"
	return map[string]string{
		"PROVISION_OUTPUT": "/var/log/azure/cluster-provision-cse-output.log", "CLI_TOOL": "ctr", "SKIP_WAAGENT_HOLD": "true",
		"CLOUDPROVIDER_BACKOFF": "true", "CLOUDPROVIDER_BACKOFF_MODE": "v2", "CLOUDPROVIDER_BACKOFF_RETRIES": "6", "CLOUDPROVIDER_BACKOFF_EXPONENT": "0",
		"CLOUDPROVIDER_BACKOFF_DURATION": "5", "CLOUDPROVIDER_BACKOFF_JITTER": "0", "CLOUDPROVIDER_RATELIMIT": "true", "CLOUDPROVIDER_RATELIMIT_QPS": "10",
		"CLOUDPROVIDER_RATELIMIT_QPS_WRITE": "10", "CLOUDPROVIDER_RATELIMIT_BUCKET": "100", "CLOUDPROVIDER_RATELIMIT_BUCKET_WRITE": "100",
		"CSE_HELPERS_FILEPATH": scripts + "provision_source.sh", "CSE_DISTRO_HELPERS_FILEPATH": scripts + "provision_source_distro.sh",
		"CSE_INSTALL_FILEPATH": scripts + "provision_installs.sh", "CSE_DISTRO_INSTALL_FILEPATH": scripts + "provision_installs_distro.sh",
		"CSE_CONFIG_FILEPATH": scripts + "provision_configs.sh", "CUSTOM_SEARCH_DOMAIN_FILEPATH": scripts + "setup-custom-search-domains.sh",
		"DHCPV6_SERVICE_FILEPATH": "/etc/systemd/system/dhcpv6.service", "DHCPV6_CONFIG_FILEPATH": scripts + "enable-dhcpv6.sh",
		"INIT_AKS_CLOUD_FILEPATH": scripts + "init-aks-cloud.sh", "NETWORK_ISOLATED_CLUSTER_TEST_MODE": "false", "STANDARD_SECONDARY_NIC_COUNT": "0",
	}
}

func (d *document) cluster(env map[string]string) {
	const balancer = "cluster_config.load_balancer_config."
	env["VM_TYPE"] = d.enum("cluster_config.vm_type", "VM_TYPE_", "standard", "vmss")
	env["NETWORK_PLUGIN"] = d.enum("network_config.network_plugin", "NETWORK_PLUGIN_", "none", "azure", "kubenet")
	env["NETWORK_POLICY"] = d.enum("network_config.network_policy", "NETWORK_POLICY_", "none", "azure", "calico")
	env["LOAD_BALANCER_SKU"] = map[string]string{"basic": "Basic", "standard": "Standard"}[d.enum(balancer+"load_balancer_sku", "LOAD_BALANCER_SKU_", "basic", "standard")]
	env["EXCLUDE_MASTER_FROM_STANDARD_LB"] = d.flagOr(balancer+"exclude_master_from_standard_load_balancer", "true")
	env["MAXIMUM_LOADBALANCER_RULE_COUNT"] = strconv.FormatInt(or(d.number(balancer+"max_load_balancer_rule_count"), 148), 10)
	env["IS_VHD"] = d.flagOr("is_vhd", "true")
	env["DISABLE_SSH"] = strconv.FormatBool(d.flagOr("enable_ssh", "true") == "false")
	env["ENABLE_SECURE_TLS_BOOTSTRAPPING"] = strconv.FormatBool(
		d.text("bootstrapping_config.bootstrapping_auth_method") == "BOOTSTRAPPING_AUTH_METHOD_SECURE_TLS_BOOTSTRAPPING")
	env["ENABLE_KUBELET_SERVING_CERTIFICATE_ROTATION"] = d.flag("kubelet_config.kubelet_config_file_config.server_tls_bootstrap")
	env["ENSURE_NO_DUPE_PROMISCUOUS_BRIDGE"] = strconv.FormatBool(env["NETWORK_PLUGIN"] == "kubenet" && env["NETWORK_POLICY"] != "calico")
	if env["ADMINUSER"] == "" {
		env["ADMINUSER"] = "azureuser"
	}
	timeout := d.number("cse_timeout")
	if timeout <= 0 || timeout > 21600 {
		timeout = 900
	}
	env["CSE_TIMEOUT"] = strconv.FormatInt(timeout, 10)
}

func (d *document) flagOr(path, missing string) string {
	if d.at(path) == nil {
		return missing
	}
	return d.flag(path)
}

func or(n, zero int64) int64 {
	if n == 0 {
		return zero
	}
	return n
}

// cloud follows from the location, unless the document brings one of its own.
func (d *document) cloud(env map[string]string) {
	target, manager := "AzurePublicCloud", "https://management.azure.com/"
	switch location := strings.ToLower(strings.Join(strings.Fields(env["LOCATION"]), "")); {
	case strings.HasPrefix(location, "china"):
		target, manager = "AzureChinaCloud", "https://management.chinacloudapi.cn/"
	case strings.HasPrefix(location, "usgov"), strings.HasPrefix(location, "usdod"):
		target, manager = "AzureUSGovernmentCloud", "https://management.usgovcloudapi.net/"
	}
	env["TARGET_CLOUD"], env["TARGET_ENVIRONMENT"], env["ARM_RESOURCE_ENDPOINT"] = target, target, manager
	custom := strings.EqualFold(d.text("custom_cloud_config.custom_cloud_env_name"), "akscustom")
	env["IS_CUSTOM_CLOUD"] = strconv.FormatBool(custom)
	if custom {
		env["TARGET_CLOUD"], env["TARGET_ENVIRONMENT"], env["ARM_RESOURCE_ENDPOINT"] = "AzureStackCloud", "akscustom", ""
		env["AZURE_ENVIRONMENT_FILEPATH"] = "/etc/kubernetes/akscustom.json"
	}
}

func (d *document) system(env map[string]string) {
	size := d.number("custom_linux_os_config.swap_file_size")
	env["SWAP_FILE_SIZE_MB"] = strconv.FormatInt(size, 10)
	env["SHOULD_CONFIG_SWAP_FILE"] = strconv.FormatBool(size > 0 && read[bool](d, "custom_linux_os_config.enable_swap_config"))
	env["SHOULD_CONFIG_TRANSPARENT_HUGE_PAGE"] = strconv.FormatBool(env["THP_ENABLED"] != "" || env["THP_DEFRAG"] != "")
	env["SHOULD_CONFIG_CONTAINERD_ULIMITS"] = strconv.FormatBool(d.at("custom_linux_os_config.ulimit_config") != nil)
	proxy := d.text("http_proxy_config.http_proxy") + d.text("http_proxy_config.https_proxy")
	env["SHOULD_CONFIGURE_HTTP_PROXY"] = strconv.FormatBool(proxy != "")
	env["SHOULD_CONFIGURE_HTTP_PROXY_CA"] = strconv.FormatBool(d.text("http_proxy_config.proxy_trusted_ca") != "")
	authorities := read[[]any](d, "custom_ca_certs")
	env["SHOULD_CONFIGURE_CUSTOM_CA_TRUST"] = strconv.FormatBool(len(authorities) > 0)
	env["CUSTOM_CA_TRUST_COUNT"] = strconv.Itoa(len(authorities))
	env["HAS_CUSTOM_SEARCH_DOMAIN"] = strconv.FormatBool(d.text("custom_search_domain_config.domain_name") != "")
	env["HAS_KUBELET_DISK_TYPE"] = strconv.FormatBool(d.text("kubelet_config.kubelet_disk_type") == "KUBELET_DISK_TEMP_DISK")
	env["MIG_NODE"] = strconv.FormatBool(env["GPU_INSTANCE_PROFILE"] != "")
	vm := d.text("vm_size")
	env["SGX_NODE"] = strconv.FormatBool(vm == "Standard_DC2s" || vm == "Standard_DC4s")
	env["GPU_NEEDS_FABRIC_MANAGER"] = strconv.FormatBool(fabricSizes.MatchString(vm) && !strings.HasPrefix(strings.ToLower(vm), "standard_nc"))
	env["SYSCTL_CONTENT"] = base64.StdEncoding.EncodeToString([]byte(d.sysctls()))
}

// fabricSizes are the sizes whose GPUs are joined by a switch.
var fabricSizes = regexp.MustCompile(`(?i)^standard_nd\d+[a-z]*_((a100_)?v4|h[12]00_v5)$`)

// kernelName is a field's sysctl; empty for one of another age, which is passed over.
func kernelName(field string) string {
	if odd := map[string]string{
		"fs_aio_max_nr": "fs.aio-max-nr", "fs_file_max": "fs.file-max", "fs_nr_open": "fs.nr_open", "kernel_threads_max": "kernel.threads-max",
		"fs_inotify_max_user_watches":    "fs.inotify.max_user_watches",
		"net_ipv4_tcpkeepalive_intvl":    "net.ipv4.tcp_keepalive_intvl",
		"net_ipv4_ip_local_port_range":   "net.ipv4.ip_local_port_range",
		"net_netfilter_nf_conntrack_max": "net.netfilter.nf_conntrack_max", "net_netfilter_nf_conntrack_buckets": "net.netfilter.nf_conntrack_buckets",
	}[field]; odd != "" {
		return odd
	}
	if rest, ok := strings.CutPrefix(field, "net_ipv4_neigh_default_"); ok {
		return "net.ipv4.neigh.default." + rest
	}
	for _, group := range []string{"net_core_", "net_ipv4_", "vm_"} {
		if rest, ok := strings.CutPrefix(field, group); ok {
			return strings.ReplaceAll(group, "_", ".") + rest
		}
	}
	return ""
}

func (d *document) sysctls() string {
	const config = "custom_linux_os_config.sysctl_config"
	values := map[string]string{
		"net.ipv4.tcp_retries2": "8", "net.core.message_burst": "80", "net.core.message_cost": "40", "net.core.somaxconn": "16384",
		"net.ipv4.tcp_max_syn_backlog": "16384", "net.ipv4.neigh.default.gc_thresh1": "4096",
		"net.ipv4.neigh.default.gc_thresh2": "8192", "net.ipv4.neigh.default.gc_thresh3": "16384",
	}
	for field := range read[map[string]any](d, config) {
		switch path := config + "." + field; field {
		case "net_ipv4_ip_local_port_range":
			values[kernelName(field)] = d.text(path)
			if _, last, _ := strings.Cut(d.text(path), " "); len(last) == 5 && last > "65330" {
				values["net.ipv4.ip_local_reserved_ports"] = "65330"
			}
		case "net_ipv4_tcp_tw_reuse":
			values[kernelName(field)] = map[string]string{"true": "1", "false": "0"}[d.flag(path)]
		default:
			if name := kernelName(field); name != "" {
				values[name] = strconv.FormatInt(d.number(path), 10)
			}
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s=%s\n", name, values[name])
	}
	return b.String()
}

// cache checks the profile of the DNS cache; its file is made by the image.
func (d *document) cache(env map[string]string) {
	const profile = "local_dns_profile."
	env["LOCALDNS_CPU_LIMIT"], env["LOCALDNS_MEMORY_LIMIT"] = "200.0%", "128M"
	env["SHOULD_ENABLE_HOSTS_PLUGIN"] = d.flag(profile + "enable_hosts_plugin")
	if env["SHOULD_ENABLE_LOCALDNS"] != "true" {
		return
	}
	if n := d.number(profile + "cpu_limit_in_milli_cores"); n != 0 {
		env["LOCALDNS_CPU_LIMIT"] = fmt.Sprintf("%.1f%%", float64(n)/10)
	}
	if n := d.number(profile + "memory_limit_in_mb"); n != 0 {
		env["LOCALDNS_MEMORY_LIMIT"] = fmt.Sprintf("%dM", n)
	}
	var zones []string
	for _, list := range []string{"vnet_dns_overrides", "kube_dns_overrides"} {
		overrides := read[map[string]any](d, profile+list)
		for _, zone := range slices.Sorted(maps.Keys(overrides)) {
			if strings.ContainsAny(zone, " \t\n{}\"") || zone == "" {
				d.errs = append(d.errs, fmt.Errorf("%s has a zone that is no name", list))
			}
			zones = append(zones, zone+":53 { }")
		}
		if overrides["."] == nil {
			d.errs = append(d.errs, fmt.Errorf("%s lacks the root zone", list))
		}
	}
	env["LOCALDNS_COREFILE_BASE"] = base64.StdEncoding.EncodeToString([]byte(strings.Join(zones, "\n")))
	env["LOCALDNS_GENERATED_COREFILE"] = env["LOCALDNS_COREFILE_BASE"]
}
