// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"math"
)

// gib is a gibibyte: sizes.txt gives host caches in it, the API bytes.
const gib = 1 << 30

// set gives one property of sizes.txt its value. VCPUs must be known before, as
// other values are meant per vCPU.
func (s *Size) set(name string, v value) error {
	switch name {
	case clauseCPU: // known
		return nil
	case "percore":
		return s.count(&s.VCPUsPerCore, v)
	case "memory":
		n, err := v.count(s.VCPUs)
		s.MemoryGiB = n
		return err
	case "gpus":
		return s.count(&s.GPUs, v)
	case "datadisks":
		return s.count(&s.MaxDataDisks, v)
	case "nics":
		return s.count(&s.MaxNICs, v)
	case "temp":
		return s.bytes(&s.ResourceDiskMiB, v, 1)
	case "cache":
		return s.bytes(&s.CachedDiskBytes, v, gib)
	case "nvme":
		return s.bytes(&s.NVMeMiB, v, 1)
	case "nvmedisk":
		return s.bytes(&s.NVMePerDiskMiB, v, 1)
	}
	if flag := s.flag(name); flag != nil {
		truth, err := v.truth()
		*flag = truth
		return err
	}
	return s.setWord(name, v.text())
}

func (s *Size) setWord(name, word string) error {
	switch name {
	case clauseFamily:
		s.Family = word
	case "arch":
		s.Architecture = word
	case "gens":
		s.HyperVGenerations = word
	case "controllers":
		s.DiskControllers = word
	case "confidential":
		s.Confidential = word
	case "osdisk":
		s.EphemeralOSDisk = word != ""
		if word != "unstated" {
			s.EphemeralOSDiskPlacements = word
		}
	case "trusted":
		if word != "yes" && word != "no" {
			return fmt.Errorf("%q is neither yes nor no", word)
		}
		s.TrustedLaunchDisabled = word == "no"
	default:
		return fmt.Errorf("no such property")
	}
	return nil
}

// flag is where a yes-or-no property is kept, or nil for any other.
func (s *Size) flag(name string) *bool {
	switch name {
	case "premium":
		return &s.PremiumIO
	case "ultra":
		return &s.UltraSSD
	case "accelnet":
		return &s.AcceleratedNetworking
	case "rdma":
		return &s.RDMA
	case "hostenc":
		return &s.EncryptionAtHost
	case "spot":
		return &s.Spot
	case "reserve":
		return &s.Reservable
	}
	return nil
}

func (s *Size) count(to *int, v value) error {
	n, err := v.count(s.VCPUs)
	if err == nil && n != math.Trunc(n) {
		return fmt.Errorf("%s makes %g, not a whole number", v.word, n)
	}
	*to = int(n)
	return err
}

func (s *Size) bytes(to *int64, v value, unit float64) error {
	n, err := v.count(s.VCPUs)
	if n *= unit; err == nil && n != math.Trunc(n) {
		return fmt.Errorf("%s makes %g, not a whole number", v.word, n)
	}
	*to = int64(n)
	return err
}
