// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
)

// customData reads the bootstrap token at each call: nodes with a token that was rotated
// meanwhile would never join.
func (r *vmRequest) customData(ctx context.Context) (string, error) {
	o := r.opts
	token, err := o.BootstrapToken(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the bootstrap token: %w", err)
	}
	labels, err := r.nodeLabels(ctx)
	if err != nil {
		return "", err
	}
	net, err := r.nodeNetwork(ctx)
	if err != nil {
		return "", err
	}
	n := r.nodeConfig(labels, net)
	n.Token, n.ImageVersion = token, image.Version(r.image)
	data, err := r.encoder.CustomData(n, o.BootstrapContract.For(n.ImageVersion))
	if err != nil {
		return "", fmt.Errorf("writing the VM's boot configuration: %w", err)
	}
	return data, nil
}

// nodeConfig returns the data for the node's bootstrap, without its token and image.
func (r *vmRequest) nodeConfig(labels map[string]string, net bootstrap.Network) bootstrap.NodeConfig {
	o, spec := r.opts, &r.class.Spec
	taints := append([]provider.Taint{unregistered()}, r.claim.Taints...)
	n := bootstrap.NodeConfig{
		Server: o.serverName(), CA: o.CABundle, Version: kubeversion.Of(r.class),
		Labels: kubeletLabels(labels), Taints: append(taints, r.claim.StartupTaints...), MaxPods: r.instanceType.maxPods,
		Overhead: r.instanceType.overhead.bootstrap(), Kubelet: spec.Kubelet, OS: spec.LinuxOSConfig, DNS: o.DNSServiceIP,
		Size: r.instanceType.sku.Name, Arch: r.instanceType.sku.Arch, GPU: gpuFor(r.instanceType.sku, spec.InstallsGPUDriver()), StreamArtifacts: spec.StreamsArtifacts(),
		Subscription: o.SubscriptionID, Tenant: o.TenantID, ResourceGroup: o.NodeResourceGroup, Location: o.Location,
		Cloud: o.CustomCloud, Network: net, Identity: o.KubeletIdentityClientID, Admin: o.AdminUsername,
	}
	if r.class.LocalDNSEnabled() {
		n.LocalDNS = spec.LocalDNS
	}
	return n
}

// nodeNetwork returns the network settings of the node. AKS names the agents' security group and
// route table with the same eight digits as its virtual network.
func (r *vmRequest) nodeNetwork(ctx context.Context) (bootstrap.Network, error) {
	o := r.opts
	net := bootstrap.Network{
		VNet: r.subnet.VNet, VNetResourceGroup: r.subnet.Group, Subnet: r.subnet.Name, Plugin: o.cni().BootstrapPlugin(), Policy: o.NetworkPolicy,
	}
	dual, err := r.network.DualStack(ctx, r.subnet)
	if err != nil {
		return net, err
	}
	net.DualStack = dual
	digits := eightDigits.FindString(r.subnet.VNet)
	if !r.subnet.Managed(o.NodeResourceGroup) {
		nsg, err := r.network.SecurityGroup(ctx, r.subnet)
		if err != nil {
			return net, err
		}
		net.SecurityGroup = lastSegment(nsg)
		digits = eightDigits.FindString(net.SecurityGroup)
	}
	if digits != "" {
		net.SecurityGroup = cmp.Or(net.SecurityGroup, "aks-agentpool-"+digits+"-nsg")
		net.RouteTable = "aks-agentpool-" + digits + "-routetable"
	}
	return net, nil
}

var eightDigits = regexp.MustCompile(`\d{8}`)

// unregistered returns the taint that keeps pods away from a node until the controller has
// registered it.
func unregistered() provider.Taint {
	return provider.Taint{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}
}

// kubeletLabels returns the labels that the kubelet may set on its own node.
func kubeletLabels(labels map[string]string) map[string]string {
	own := maps.Clone(labels)
	maps.DeleteFunc(own, func(key, _ string) bool { return !passesToKubelet(key) })
	return own
}

// serverName returns the host name of the API server.
func (o *Options) serverName() string {
	name, _ := bootstrap.ServerName(o.ClusterEndpoint) // New has checked it
	return name
}

// nodeLabels returns all labels of the node: those of its type and offering, overridden by those
// of the claim.
func (r *vmRequest) nodeLabels(ctx context.Context) (map[string]string, error) {
	labels := map[string]string{}
	copySingleValues(labels, r.instanceType.offered.Labels)
	if o := r.instanceType.offeringOf(r.offering); o != nil {
		copySingleValues(labels, o.Labels)
	}
	maps.Copy(labels, map[string]string{
		v1beta1.LabelNodeClass:           r.class.Name,
		v1beta1.AKSLabelMode:             v1beta1.ModeUser, // the claim may choose another
		v1beta1.AKSLabelScaleSetPriority: priorityLabel(r.offering.CapacityType),
	})
	if err := r.networkLabels(ctx, labels); err != nil {
		return nil, err
	}
	maps.Copy(labels, r.claim.Labels)
	labels[labelCapacityType] = r.offering.CapacityType
	labels[labelDoNotSyncTaints] = "true"
	if r.claim.Pool != "" {
		labels[labelNodePool] = r.claim.Pool
	}
	return labels, nil
}

// networkLabels adds the labels that have to be read from Azure.
func (r *vmRequest) networkLabels(ctx context.Context, labels map[string]string) error {
	if !r.opts.cni().Overlay() {
		return nil
	}
	guid, err := r.network.VNetGUID(ctx, r.subnet)
	if err != nil {
		return err
	}
	if guid != "" {
		labels[v1beta1.AKSLabelVNetGUID] = guid
	}
	return nil
}
