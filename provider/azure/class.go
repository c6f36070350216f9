// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/image"
	"github.com/karve-dev/karve/provider/azure/internal/kubeversion"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/pricing"
)

const defaultDiskGB = 128

// A shape is the part of a node class that determines its instance types. It is comparable: two
// classes of one shape offer the same types.
type shape struct {
	image         v1beta1.ImageFamily
	diskGB        int64
	maxPods       int64
	encryptAtHost bool
	trustedLaunch bool
	gpuDriver     bool
	streaming     bool
	localDNS      bool
	fips          bool
	minor         int // minor of Kubernetes 1.x; zero while unknown
	runs          image.Bootable
	release       string // operating system release, as in its label
	subnet        string // lower case
	subnetName    string // as the class spells it
	spot          pricing.SpotLimit
}

// class reads a node class.
func (p *Provider) class(ctx context.Context, name string) (*v1beta1.AKSNodeClass, error) {
	class, err := p.opts.Classes.AKSNodeClass(ctx, name)
	if errors.Is(err, ErrClassNotFound) {
		return nil, &provider.NotReadyError{Class: name, Reason: provider.ClassNotFound, Detail: "there is no AKSNodeClass of that name"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading AKSNodeClass %s: %w", name, err)
	}
	return class, nil
}

// buyable returns why no node may be launched for the node class now.
func buyable(class *v1beta1.AKSNodeClass) error {
	refuse := func(reason, detail string) error {
		return &provider.NotReadyError{Class: class.Name, Reason: reason, Detail: detail}
	}
	if !class.DeletionTimestamp.IsZero() {
		return refuse("NodeClassTerminating", "the AKSNodeClass is being deleted")
	}
	// A status for an older spec would launch a node that has drifted from the start.
	if ready := class.Condition(v1beta1.ConditionTypeReady); len(class.Status.Conditions) > 0 && !class.IsReady() {
		return &provider.NotReadyError{Class: class.Name, Reason: ready.Reason, Detail: ready.Message, Unsettled: ready.Status != metav1.ConditionFalse}
	}
	if kubeversion.Of(class) == "" {
		return refuse("KubernetesVersionNotReady", "the Kubernetes version is not known yet")
	}
	return nil
}

// shape computes the shape of a node class. Images come from its status, or from the family's
// table while the status has none.
func (b *typeBuilder) shape(class *v1beta1.AKSNodeClass) shape {
	spec := &class.Spec
	sh := shape{
		image:         image.FamilyOf(spec),
		diskGB:        defaultDiskGB,
		maxPods:       b.cni.DefaultMaxPods(),
		encryptAtHost: spec.EncryptsAtHost(),
		trustedLaunch: spec.UsesTrustedLaunch(),
		gpuDriver:     spec.InstallsGPUDriver(),
		streaming:     spec.StreamsArtifacts(),
		localDNS:      class.LocalDNSEnabled(),
		fips:          spec.FIPS(),
		minor:         kubeversion.Minor(kubeversion.Of(class)),
		subnet:        b.subnets.keyOf(class),
	}
	sh.release = image.ReleaseFor(spec, sh.minor).Label
	if id, err := b.subnets.parsed(class); err == nil {
		sh.subnetName = id.Name
	}
	if spec.OSDiskSizeGB != nil {
		sh.diskGB = int64(*spec.OSDiskSizeGB)
	}
	if spec.MaxPods != nil {
		sh.maxPods = int64(*spec.MaxPods)
	}
	sh.runs = image.BootableBy(class)
	sh.spot, _ = pricing.SpotLimitOf(class) // the error is reported by IgnoredFields
	return sh
}

// nodeSubnets are the subnets that nodes join: the cluster's, unless the node class names another.
type nodeSubnets struct {
	own network.SubnetID // the cluster's
	id  string           // of own
	key string           // id in lower case
}

// of returns the ID of the subnet that nodes of the class join.
func (s nodeSubnets) of(class *v1beta1.AKSNodeClass) string {
	if class.Spec.VNETSubnetID != nil && *class.Spec.VNETSubnetID != "" {
		return *class.Spec.VNETSubnetID
	}
	return s.id
}

// parsed returns of, parsed.
func (s nodeSubnets) parsed(class *v1beta1.AKSNodeClass) (network.SubnetID, error) {
	if id := s.of(class); id != s.id {
		return network.ParseSubnetID(id)
	}
	return s.own, nil
}

// keyOf returns of in lower case.
func (s nodeSubnets) keyOf(class *v1beta1.AKSNodeClass) string {
	if id := s.of(class); id != s.id {
		return strings.ToLower(id)
	}
	return s.key
}
