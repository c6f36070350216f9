// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

// disk returns the OS disk: on local storage if it fits, else a managed one. Its name depends on
// the offering too, because the disk of a failed attempt may still be in deletion when the next
// one is created.
func (r *vmRequest) disk() *armcompute.OSDisk {
	sum := sha256.Sum256([]byte(r.offering.Type + "/" + r.offering.Zone + "/" + r.offering.CapacityType))
	sizeGB := r.instanceType.offered.Capacity["ephemeral-storage"] / sku.Gigabyte
	disk := &armcompute.OSDisk{
		Name:         to.Ptr(r.handle + "-" + hex.EncodeToString(sum[:3])),
		CreateOption: to.Ptr(armcompute.DiskCreateOptionTypesFromImage),
		DeleteOption: to.Ptr(armcompute.DiskDeleteOptionTypesDelete),
		DiskSizeGB:   to.Ptr(int32(sizeGB)),
	}
	if placement, ok := r.instanceType.sku.Local.Placement(sizeGB); ok {
		disk.Caching = to.Ptr(armcompute.CachingTypesReadOnly)
		disk.DiffDiskSettings = &armcompute.DiffDiskSettings{Option: to.Ptr(armcompute.DiffDiskOptionsLocal), Placement: to.Ptr(placement)}
	}
	if set := r.opts.DiskEncryptionSetID; set != "" {
		disk.ManagedDisk = &armcompute.ManagedDiskParameters{DiskEncryptionSet: &armcompute.DiskEncryptionSetParameters{ID: to.Ptr(set)}}
	}
	return disk
}
