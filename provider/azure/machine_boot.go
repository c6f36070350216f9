package azure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/bootstrap"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
	"github.com/karve-dev/karve/provider/azure/internal/network"
)

// customData reads the bootstrap token at each call: nodes with a token that was rotated
// meanwhile would never join.
func (l *launch) customData(ctx context.Context, m *machineType, choice offering.Ref, subnet network.SubnetID, imageID string) (string, error) {
	o := &l.p.opts
	token, err := o.BootstrapToken(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the bootstrap token: %w", err)
	}
	labels, err := l.nodeLabels(ctx, m, choice, subnet)
	if err != nil {
		return "", err
	}
	place, err := l.place(ctx, subnet)
	if err != nil {
		return "", err
	}
	n := l.bootNode(m, labels, place)
	n.Token, n.ImageVersion = token, image.Version(imageID)
	data, err := l.p.boots.CustomData(n, o.BootstrapContract.For(n.ImageVersion))
	if err != nil {
		return "", fmt.Errorf("writing what the machine boots with: %w", err)
	}
	return data, nil
}

// bootNode returns the data for the node's bootstrap, without its token and image.
func (l *launch) bootNode(m *machineType, labels map[string]string, place bootstrap.Network) bootstrap.Node {
	o, spec := &l.p.opts, &l.class.Spec
	taints := append([]provider.Taint{unregistered()}, l.claim.Taints...)
	n := bootstrap.Node{
		Server: o.serverName(), CA: o.CABundle, Version: kubeversion.Of(l.class),
		Labels: kubeletLabels(labels), Taints: append(taints, l.claim.StartupTaints...), MaxPods: m.maxPods,
		Reserved: m.reserved.boot(), Kubelet: spec.Kubelet, OS: spec.LinuxOSConfig, DNS: o.DNSServiceIP,
		Size: m.sku.Name, Arch: m.sku.Arch, GPU: gpuFor(m.sku, spec.InstallsGPUDriver()), StreamArtifacts: spec.StreamsArtifacts(),
		Subscription: o.SubscriptionID, Tenant: o.TenantID, ResourceGroup: o.NodeResourceGroup, Location: o.Location,
		Cloud: o.CustomCloud, Network: place, Identity: o.KubeletIdentityClientID, Admin: o.AdminUsername,
	}
	if l.class.LocalDNSEnabled() {
		n.LocalDNS = spec.LocalDNS
	}
	return n
}

// place returns the node's place in the network. AKS names the agents' security group and route
// table with the same eight digits as its virtual network.
func (l *launch) place(ctx context.Context, subnet network.SubnetID) (bootstrap.Network, error) {
	o := &l.p.opts
	place := bootstrap.Network{
		VNet: subnet.VNet, VNetResourceGroup: subnet.Group, Subnet: subnet.Name, Plugin: o.cni().BootstrapPlugin(), Policy: o.NetworkPolicy,
	}
	dual, err := l.p.network.DualStack(ctx, subnet)
	if err != nil {
		return place, err
	}
	place.DualStack = dual
	digits := eightDigits.FindString(subnet.VNet)
	if !subnet.Managed(o.NodeResourceGroup) {
		nsg, err := l.p.network.SecurityGroup(ctx, subnet)
		if err != nil {
			return place, err
		}
		place.SecurityGroup = lastSegment(nsg)
		digits = eightDigits.FindString(place.SecurityGroup)
	}
	if digits != "" {
		place.SecurityGroup = cmp.Or(place.SecurityGroup, "aks-agentpool-"+digits+"-nsg")
		place.RouteTable = "aks-agentpool-" + digits + "-routetable"
	}
	return place, nil
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
	maps.DeleteFunc(own, func(key, _ string) bool { return !kubeletMaySet(key) })
	return own
}

// serverName returns the host name of the API server.
func (o *Options) serverName() string {
	name, _ := bootstrap.ServerName(o.ClusterEndpoint) // New has checked it
	return name
}

// nodeLabels returns all labels of the node: those of its type and offering, overridden by those
// of the claim.
func (l *launch) nodeLabels(ctx context.Context, m *machineType, choice offering.Ref, subnet network.SubnetID) (map[string]string, error) {
	labels := map[string]string{}
	single(labels, m.offered.Labels)
	if o := m.offer(choice); o != nil {
		single(labels, o.Labels)
	}
	maps.Copy(labels, map[string]string{
		v1beta1.LabelNodeClass:           l.class.Name,
		v1beta1.AKSLabelMode:             v1beta1.ModeUser, // the claim may choose another
		v1beta1.AKSLabelScaleSetPriority: priorityLabel(choice.CapacityType),
	})
	if err := l.networkLabels(ctx, labels, subnet); err != nil {
		return nil, err
	}
	maps.Copy(labels, l.claim.Labels)
	labels[labelCapacityType] = choice.CapacityType
	labels[labelDoNotSyncTaints] = "true"
	if l.claim.Pool != "" {
		labels[labelNodePool] = l.claim.Pool
	}
	return labels, nil
}

// networkLabels adds the labels that have to be read from Azure.
func (l *launch) networkLabels(ctx context.Context, labels map[string]string, subnet network.SubnetID) error {
	if !l.p.opts.cni().Overlay() {
		return nil
	}
	guid, err := l.p.network.VNetGUID(ctx, subnet)
	if err != nil {
		return err
	}
	if guid != "" {
		labels[v1beta1.AKSLabelVNetGUID] = guid
	}
	return nil
}
