package azure

import (
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// localDisks is the local storage of a virtual machine that can hold an OS disk, in bytes.
type localDisks struct {
	nvme, cache, resource int64
}

// readLocalDisks keeps only the storage on which the size allows an OS disk. Older sizes, which
// list no placements, allow the cache and the resource disk.
func readLocalDisks(c capabilities) localDisks {
	if !c.flag("EphemeralOSDiskSupported") {
		return localDisks{}
	}
	places := c.list("SupportedEphemeralOSDiskPlacements")
	unsaid := c["SupportedEphemeralOSDiskPlacements"] == ""
	var d localDisks
	if places["NvmeDisk"] {
		d.nvme = c.whole("NvmeDiskSizeInMiB", optional) << 20
	}
	if places["CacheDisk"] || unsaid {
		d.cache = c.whole("CachedDiskBytes", optional)
	}
	if places["ResourceDisk"] || unsaid {
		d.resource = c.whole("MaxResourceVolumeMB", optional) << 20
	}
	return d
}

const gigabyte = 1_000_000_000

// largestGB returns the largest OS disk that fits on local storage, in decimal GB.
func (d localDisks) largestGB() int64 { return max(d.nvme, d.cache, d.resource) / gigabyte }

// placement returns where an OS disk of sizeGB goes: the first of NVMe, cache and resource disk
// that holds it. It reports false when only a managed disk does.
func (d localDisks) placement(sizeGB int64) (armcompute.DiffDiskPlacement, bool) {
	switch {
	case d.nvme/gigabyte >= sizeGB:
		return armcompute.DiffDiskPlacementNvmeDisk, true
	case d.cache/gigabyte >= sizeGB:
		return armcompute.DiffDiskPlacementCacheDisk, true
	case d.resource/gigabyte >= sizeGB:
		return armcompute.DiffDiskPlacementResourceDisk, true
	}
	return "", false
}
