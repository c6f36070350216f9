// SPDX-License-Identifier: Apache-2.0

package catalog

import "strconv"

// Capability is a name and value as the Resource SKUs API writes them: numbers in
// decimal, truth as "True" and "False".
type Capability struct{ Name, Value string }

// osVHDSizeMB is the largest OS disk in MiB, one less GiB than 1 TiB; the API
// gives the same for every size.
const osVHDSizeMB = 1047552

// Capabilities lists what the Resource SKUs API says about the size. As there, a
// capability that a size lacks is left out rather than said to be zero, except
// for those that the API always states.
func (s Size) Capabilities() []Capability {
	c := make(capabilities, 0, 28)
	c.number("MaxResourceVolumeMB", s.ResourceDiskMiB)
	c.number("OSVhdSizeMB", osVHDSizeMB)
	c.number("vCPUs", int64(s.VCPUs))
	c.number("vCPUsAvailable", int64(s.VCPUsAvailable))
	c.number("vCPUsPerCore", int64(s.VCPUsPerCore))
	c.add("MemoryGB", strconv.FormatFloat(s.MemoryGiB, 'f', -1, 64))
	c.add("CpuArchitectureType", s.Architecture)
	c.add("HyperVGenerations", s.HyperVGenerations)
	c.some("GPUs", int64(s.GPUs))
	c.storage(s)
	c.truth("AcceleratedNetworkingEnabled", s.AcceleratedNetworking)
	c.truth("RdmaEnabled", s.RDMA)
	c.number("MaxNetworkInterfaces", int64(s.MaxNICs))
	c.truth("LowPriorityCapable", s.Spot)
	c.truth("CapacityReservationSupported", s.Reservable)
	if s.TrustedLaunchDisabled {
		c.truth("TrustedLaunchDisabled", true)
	}
	c.text("ConfidentialComputingType", s.Confidential)
	return c
}

type capabilities []Capability

// storage adds what concerns disks.
func (c *capabilities) storage(s Size) {
	c.some("CachedDiskBytes", s.CachedDiskBytes)
	c.some("NvmeDiskSizeInMiB", s.NVMeMiB)
	c.some("NvmeSizePerDiskInMiB", s.NVMePerDiskMiB)
	c.truth("EphemeralOSDiskSupported", s.EphemeralOSDisk)
	c.text("SupportedEphemeralOSDiskPlacements", s.EphemeralOSDiskPlacements)
	c.text("DiskControllerTypes", s.DiskControllers)
	c.number("MaxDataDiskCount", int64(s.MaxDataDisks))
	c.truth("PremiumIO", s.PremiumIO)
	if s.UltraSSD {
		c.truth("UltraSSDAvailable", true)
	}
	c.truth("EncryptionAtHostSupported", s.EncryptionAtHost)
}

func (c *capabilities) add(name, value string) { *c = append(*c, Capability{name, value}) }

func (c *capabilities) number(name string, n int64) { c.add(name, strconv.FormatInt(n, 10)) }

// some adds a number unless it is zero.
func (c *capabilities) some(name string, n int64) {
	if n != 0 {
		c.number(name, n)
	}
}

// text adds a word or list unless it is empty.
func (c *capabilities) text(name, value string) {
	if value != "" {
		c.add(name, value)
	}
}

func (c *capabilities) truth(name string, v bool) {
	if v {
		c.add(name, "True")
		return
	}
	c.add(name, "False")
}
