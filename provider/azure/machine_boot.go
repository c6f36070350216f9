package azure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/engine/offer"
	"github.com/karve-dev/karve/provider"
)

// customData asks for the token now: one that was rotated an hour ago would make
// machines that never join.
func (l *launch) customData(ctx context.Context, m *machineType, choice offer.Choice, subnet subnetID) (string, error) {
	o := &l.p.opts
	token, err := o.BootstrapToken(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the bootstrap token: %w", err)
	}
	if token == "" {
		return "", errors.New("the bootstrap token is empty")
	}
	labels, err := l.nodeLabels(ctx, m, choice, subnet)
	if err != nil {
		return "", err
	}
	taints := append([]provider.Taint{unregistered()}, l.claim.Taints...)
	n := &bootNode{
		name: l.name, server: serverName(o.ClusterEndpoint), ca: o.CABundle, token: token,
		version: kubernetesVersion(l.class), labels: labels, taints: append(taints, l.claim.StartupTaints...),
		maxPods: m.maxPods, reserved: m.reserved, gpu: driverFor(m.sku, l.class.Spec.InstallsGPUDriver()),
		kubelet: l.class.Spec.Kubelet, dns: o.DNSServiceIP,
		subscription: o.SubscriptionID, tenant: o.TenantID, group: o.NodeResourceGroup, location: o.Location,
		subnet: subnet, networkPlugin: o.bootstrapPlugin(), networkPolicy: o.NetworkPolicy,
		identityClientID: o.KubeletIdentityClientID, adminUser: o.AdminUsername,
	}
	return n.customData()
}

// bootstrapPlugin is the plugin the image sets up: none where a DaemonSet brings it.
func (o *Options) bootstrapPlugin() string {
	if o.NetworkPlugin == pluginNone || o.NetworkPluginMode == modeOverlay || o.NetworkDataplane == dataplaneCilium {
		return pluginNone
	}
	return pluginAzure
}

// nodeLabels are all labels the node will have: those of its type and offer, of
// AKS, and over them those of the claim.
func (l *launch) nodeLabels(ctx context.Context, m *machineType, choice offer.Choice, subnet subnetID) (map[string]string, error) {
	labels := map[string]string{}
	single(labels, m.offered.Labels)
	if o := m.offer(choice); o != nil {
		single(labels, o.Labels)
	}
	maps.Copy(labels, l.aksLabels(choice))
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

// aksLabels are what AKS puts on nodes of its own pools. The claim may choose
// another mode.
func (l *launch) aksLabels(choice offer.Choice) map[string]string {
	spec := &l.class.Spec
	labels := map[string]string{
		v1beta1.LabelNodeClass:           l.class.Name,
		v1beta1.AKSLabelRole:             v1beta1.RoleAgent,
		v1beta1.AKSLabelMode:             v1beta1.ModeUser,
		v1beta1.AKSLabelScaleSetPriority: priorityLabel(choice.CapacityType),
		v1beta1.AKSLabelOSSKURequested:   string(imageFamily(spec)),
		v1beta1.AKSLabelOSSKUEffective:   releaseFor(spec, minorOf(kubernetesVersion(l.class))).label,
	}
	if id := l.p.opts.KubeletIdentityClientID; id != "" {
		labels[v1beta1.AKSLabelKubeletIdentityClientID] = id
	}
	return labels
}

func (l *launch) networkLabels(ctx context.Context, labels map[string]string, subnet subnetID) error {
	o := &l.p.opts
	if o.NetworkDataplane == dataplaneCilium {
		labels[v1beta1.AKSLabelEBPFDataplane] = dataplaneCilium
	}
	if o.NetworkPlugin != pluginAzure || o.NetworkPluginMode != modeOverlay {
		return nil
	}
	guid, err := l.p.network.vnetGUID(ctx, subnet)
	if err != nil {
		return err
	}
	if guid != "" {
		labels[v1beta1.AKSLabelVNetGUID] = guid
	}
	labels[v1beta1.AKSLabelNetworkSubnet] = subnet.subnet
	labels[v1beta1.AKSLabelAzureCNIOverlay] = "true"
	labels[v1beta1.AKSLabelPodNetworkType] = modeOverlay
	labels[v1beta1.AKSLabelNetworkStatelessCNI] = strconv.FormatBool(minorOf(kubernetesVersion(l.class)) >= 34)
	return nil
}
