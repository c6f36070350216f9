// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
)

// A NodeConfig holds all settings with which a VM becomes a node. Fields are required unless their
// comment says otherwise.
type NodeConfig struct {
	Server  string // host of the API server for nodes; images add port 443
	CA      []byte // of the API server, PEM
	Token   string // bootstrap token; a secret
	Version string // of Kubernetes, without "v"

	// Labels are those that the kubelet may set on its own node. Taints are those that it
	// registers with. Both may be nil.
	Labels  map[string]string
	Taints  []provider.Taint
	MaxPods int64
	// Overhead is the part of the node that pods cannot use.
	Overhead Overhead
	// Kubelet and OS are the settings of users; nil keeps AKS's.
	Kubelet *v1beta1.KubeletConfiguration
	OS      *v1beta1.LinuxOSConfiguration
	// LocalDNS runs a DNS cache on the node; nil runs none. Its mode is ignored.
	LocalDNS *v1beta1.LocalDNS
	DNS      string // address of the cluster's DNS service

	Size string // VM size, for example Standard_D4s_v5
	Arch string // amd64 or arm64
	GPU  GPU
	// ImageVersion is the version of the image, such as 202607.06.0; empty counts as a new image.
	ImageVersion string
	// StreamArtifacts lets container images start before they are pulled completely.
	StreamArtifacts bool

	Subscription, Tenant string // Tenant may be empty
	ResourceGroup        string
	Location             string
	// Cloud is a custom cloud; the zero value is the public or sovereign one of Location.
	Cloud   Cloud
	Network Network
	// Identity is the client ID of the kubelet's identity; it may be empty.
	Identity string
	Admin    string // name of the administrator
}

// Overhead is the part of a node that its pods cannot use.
type Overhead struct {
	MilliCPU    int64
	MemoryMiB   int64
	EvictionMiB int64 // of memory: the kubelet evicts pods when less is free
}

// GPU holds the settings for NVIDIA GPUs. With the zero value the image ignores any GPU: images
// install AKS's driver whenever GPUs are enabled.
type GPU struct {
	Install bool // install AKS's driver
	// Kind is the driver that the GPU needs.
	Kind GPUKind
}

// Network is the network of a node. SecurityGroup and RouteTable may be empty: only old cloud
// providers inside the kubelet changed them.
type Network struct {
	VNet, VNetResourceGroup, Subnet string
	SecurityGroup, RouteTable       string
	Plugin                          string // azure, or none if a DaemonSet installs it
	Policy                          string // the cluster's policy engine; may be empty
	DualStack                       bool   // the node has an IPv6 address too
}

// MaxSize is the maximum size in bytes of the custom data that Azure accepts, before base64.
const MaxSize = 64<<10 - 1

// ErrTooLarge reports a NodeConfig that does not fit into MaxSize.
var ErrTooLarge = errors.New("the bootstrap payload is larger than Azure takes")

// Encode writes the node for one of the contracts (not Auto). An error names the invalid setting
// of the node; it contains no secret.
func Encode(n NodeConfig, c Contract) ([]byte, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	var data []byte
	var err error
	switch c {
	case Environment:
		data, err = n.environment()
	case Structured:
		data, err = n.structured()
	default:
		return nil, fmt.Errorf("%q is no contract that images read", c)
	}
	if err != nil {
		return nil, err
	}
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes where %d fit; give the node fewer or shorter labels, taints or localDNS zones", ErrTooLarge, len(data), MaxSize)
	}
	return data, nil
}

// The scripts of the image put values into YAML, JSON and unit files without quoting them. So
// values must be plain names.
var (
	plainName   = regexp.MustCompile(`^[\pL\pN_][\pL\pN_.()-]*$`)
	serverForm  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
	tokenForm   = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	versionForm = regexp.MustCompile(`^1\.[0-9]{1,3}\.[0-9]{1,4}(-[a-z0-9]+)?$`)
)

func (n *NodeConfig) check() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(serverForm.MatchString(n.Server), "API server %q is neither a host name nor an IPv4 address", n.Server)
	require(tokenForm.MatchString(n.Token), "the bootstrap token is not six letters or digits, a dot, and sixteen more")
	require(versionForm.MatchString(n.Version), "Kubernetes version %q is not 1.x.y, nor 1.x.y-akslts", n.Version)
	block, _ := pem.Decode(n.CA)
	require(block != nil && block.Type == "CERTIFICATE", "the API server's authority holds no PEM certificate")
	require(n.MaxPods > 0, "max pods %d is not positive", n.MaxPods)
	_, err := netip.ParseAddr(n.DNS)
	require(err == nil, "DNS address %q is not an IP address", n.DNS)
	require(n.Arch == "amd64" || n.Arch == "arm64", "architecture %q is neither amd64 nor arm64", n.Arch)
	require(n.Network.Plugin == "none" || n.Network.Plugin == "azure", "network plugin %q is neither none nor azure", n.Network.Plugin)
	for _, f := range n.plainNames() {
		require(f.optional && f.value == "" || plainName.MatchString(f.value), "%s %q is not a plain name", f.what, f.value)
	}
	return errors.Join(append(errs, n.Cloud.check(), checkOS(n.OS), checkLocalDNS(n.LocalDNS))...)
}

// A field is a value that must be a plain name.
type field struct {
	what, value string
	optional    bool
}

func (n *NodeConfig) plainNames() []field {
	return []field{
		{"subscription", n.Subscription, false}, {"tenant", n.Tenant, true}, {"resource group", n.ResourceGroup, false},
		{"location", n.Location, false}, {"virtual network", n.Network.VNet, false}, {"subnet", n.Network.Subnet, false},
		{"resource group of the network", n.Network.VNetResourceGroup, false}, {"security group", n.Network.SecurityGroup, true},
		{"route table", n.Network.RouteTable, true}, {"network policy", n.Network.Policy, true}, {"size", n.Size, false},
		{"identity", n.Identity, true}, {"administrator", n.Admin, false},
	}
}

// minor returns the minor version of Kubernetes 1.
func (n *NodeConfig) minor() int {
	minor, _ := strconv.Atoi(strings.Split(n.Version, ".")[1]) // checked
	return minor
}

// policy returns the policy engine if images know it: other engines install their own agents.
func (n *NodeConfig) policy() string {
	switch n.Network.Policy {
	case "azure", "calico", "none":
		return n.Network.Policy
	}
	return ""
}
