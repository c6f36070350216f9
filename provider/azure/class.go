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

// classSettings are the settings of a node class that determine its instance types. They are
// comparable: two classes of equal settings offer the same types.
type classSettings struct {
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
	bootable      image.Bootable
	release       string // operating system release, as in its label
	subnet        string // lower case
	subnetName    string // as the class spells it
	spot          pricing.SpotLimit
}

// A classReader reads node classes.
type classReader struct{ classes Classes }

// read returns the node class, or a provider.NotReadyError when there is none of that name.
func (r classReader) read(ctx context.Context, name string) (*v1beta1.AKSNodeClass, error) {
	class, err := r.classes.AKSNodeClass(ctx, name)
	if errors.Is(err, ErrClassNotFound) {
		return nil, &provider.NotReadyError{Class: name, Reason: provider.ClassNotFound, Detail: "there is no AKSNodeClass of that name"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading AKSNodeClass %s: %w", name, err)
	}
	return class, nil
}

// checkClassReady returns why no node may be launched for the node class now.
func checkClassReady(class *v1beta1.AKSNodeClass) error {
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

// settingsOf returns the settings of a node class that determine its instance types. Images come
// from its status, or from the family's table while the status has none.
func (b *typeBuilder) settingsOf(class *v1beta1.AKSNodeClass) classSettings {
	spec := &class.Spec
	settings := classSettings{
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
		subnet:        b.subnets.lowerIDOf(class),
	}
	settings.release = image.ReleaseFor(spec, settings.minor).Label
	if id, err := b.subnets.parsed(class); err == nil {
		settings.subnetName = id.Name
	}
	if spec.OSDiskSizeGB != nil {
		settings.diskGB = int64(*spec.OSDiskSizeGB)
	}
	if spec.MaxPods != nil {
		settings.maxPods = int64(*spec.MaxPods)
	}
	settings.bootable = image.BootableBy(class)
	settings.spot, _ = pricing.SpotLimitOf(class) // the error is reported by MalformedAnnotations
	return settings
}

// nodeSubnets are the subnets that nodes join: the cluster's, unless the node class names another.
type nodeSubnets struct {
	own     network.SubnetID // the cluster's
	ownID   string
	lowerID string // ownID in lower case
}

func newNodeSubnets(id string) (nodeSubnets, error) {
	own, err := network.ParseSubnetID(id)
	return nodeSubnets{own: own, ownID: id, lowerID: strings.ToLower(id)}, err
}

// idOf returns the ID of the subnet that nodes of the class join, as the class spells it.
func (s nodeSubnets) idOf(class *v1beta1.AKSNodeClass) string {
	if class.Spec.VNETSubnetID != nil && *class.Spec.VNETSubnetID != "" {
		return *class.Spec.VNETSubnetID
	}
	return s.ownID
}

// parsed returns the subnet that nodes of the class join.
func (s nodeSubnets) parsed(class *v1beta1.AKSNodeClass) (network.SubnetID, error) {
	if id := s.idOf(class); id != s.ownID {
		return network.ParseSubnetID(id)
	}
	return s.own, nil
}

// lowerIDOf returns idOf in lower case.
func (s nodeSubnets) lowerIDOf(class *v1beta1.AKSNodeClass) string {
	if id := s.idOf(class); id != s.ownID {
		return strings.ToLower(id)
	}
	return s.lowerID
}
