// SPDX-License-Identifier: Apache-2.0

package sku

import (
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// LocalDisks is the local storage of a virtual machine that can hold an OS disk, in bytes.
type LocalDisks struct {
	nvme, cache, resource int64
}

// readLocalDisks keeps only the storage on which the size allows an OS disk. Older sizes, which
// list no placements, allow the cache and the resource disk.
func readLocalDisks(c capabilities) LocalDisks {
	if !c.flag("EphemeralOSDiskSupported") {
		return LocalDisks{}
	}
	places := c.list("SupportedEphemeralOSDiskPlacements")
	unspecified := c["SupportedEphemeralOSDiskPlacements"] == ""
	var d LocalDisks
	if places["NvmeDisk"] {
		d.nvme = c.whole("NvmeDiskSizeInMiB", optional) << 20
	}
	if places["CacheDisk"] || unspecified {
		d.cache = c.whole("CachedDiskBytes", optional)
	}
	if places["ResourceDisk"] || unspecified {
		d.resource = c.whole("MaxResourceVolumeMB", optional) << 20
	}
	return d
}

const Gigabyte = 1_000_000_000

// LargestGB returns the largest OS disk that fits on local storage, in decimal GB.
func (d LocalDisks) LargestGB() int64 { return max(d.nvme, d.cache, d.resource) / Gigabyte }

// Placement returns where an OS disk of sizeGB goes: the first of NVMe, cache and resource disk
// that holds it. It reports false when only a managed disk does.
func (d LocalDisks) Placement(sizeGB int64) (armcompute.DiffDiskPlacement, bool) {
	switch {
	case d.nvme/Gigabyte >= sizeGB:
		return armcompute.DiffDiskPlacementNvmeDisk, true
	case d.cache/Gigabyte >= sizeGB:
		return armcompute.DiffDiskPlacementCacheDisk, true
	case d.resource/Gigabyte >= sizeGB:
		return armcompute.DiffDiskPlacementResourceDisk, true
	}
	return "", false
}
