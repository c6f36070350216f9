// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/url"
	"regexp"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karve-dev/karve/controller/nodeclass"
	"github.com/karve-dev/karve/provider/azure"
)

// ImagesConfig is which images VMs start from, and with which key their disks are encrypted.
type ImagesConfig struct {
	// UseSIG takes images from AKS's shared galleries, which are in SIGSubscriptionID and
	// want a token of SIGTokenServerURL.
	UseSIG                               bool
	SIGTokenServerURL, SIGSubscriptionID string
	DiskEncryptionSetID                  string
	// SystemNamespace is karve's own, from the environment only (SYSTEM_NAMESPACE); AKS
	// plans the maintenance of nodes there.
	SystemNamespace string
}

func (c *ImagesConfig) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&c.UseSIG, "use-sig", false, "start VMs from AKS's shared galleries, which have FIPS images, instead of the community ones")
	flags.StringVar(&c.SIGTokenServerURL, "sig-access-token-server-url", "", "where tokens for the shared galleries come from (required with --use-sig in provision mode aksscriptless)")
	flags.StringVar(&c.SIGSubscriptionID, "sig-subscription-id", "", "AKS's subscription that the shared galleries are in (required with --use-sig)")
	flags.StringVar(&c.DiskEncryptionSetID, "node-osdisk-diskencryptionset-id", "", "resource id of the disk encryption set for OS disks (default: Azure's own keys)")
}

// validate checks the settings for VMs that karve creates, or AKS, which needs no token
// for galleries of its own.
func (c ImagesConfig) validate(compute bool) error {
	var f faults
	if c.UseSIG {
		if c.SIGTokenServerURL != "" || compute && f.given("sig-access-token-server-url", c.SIGTokenServerURL) {
			u, err := url.Parse(c.SIGTokenServerURL)
			f.check(err == nil && u.Scheme != "" && u.Host != "", "sig-access-token-server-url", "must be an absolute URL, got %q", c.SIGTokenServerURL)
		}
		f.given("sig-subscription-id", c.SIGSubscriptionID)
	}
	f.check(c.DiskEncryptionSetID == "" || encryptionSetID.MatchString(c.DiskEncryptionSetID), "node-osdisk-diskencryptionset-id",
		"must look like /subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/diskEncryptionSets/…, got %q", c.DiskEncryptionSetID)
	return f.joined()
}

var encryptionSetID = regexp.MustCompile(`(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/diskEncryptionSets/[^/]+$`)

// gallery is where the provider takes images from: the community galleries without use-sig,
// whatever else is set.
func (c ImagesConfig) gallery() azure.SharedGallery {
	if !c.UseSIG {
		return azure.SharedGallery{}
	}
	return azure.SharedGallery{SubscriptionID: c.SIGSubscriptionID, TokenURL: c.SIGTokenServerURL}
}

// window is when AKS lets nodes be maintained.
func (c ImagesConfig) window(reader client.Reader) nodeclass.Window {
	return nodeclass.MaintenanceWindow{Reader: reader, Namespace: c.SystemNamespace}
}
