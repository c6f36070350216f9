// SPDX-License-Identifier: Apache-2.0

package vmsize

import "strings"

// Burstable sizes, all of family B, have their vCPUs in full only while they have credits. All the
// time they have a share, "Base CPU Performance of VM (%)" in Microsoft's tables
// (learn.microsoft.com/azure/virtual-machines/sizes/general-purpose/b-family, March 2026).

// firstBurstable are the shares of the first series, in thousandths.
var firstBurstable = map[string]int64{
	"B1ls": 50, "B1s": 100, "B1ms": 200, "B2s": 200, "B2ms": 300, "B4ms": 225,
	"B8ms": 170, "B12ms": 170, "B16ms": 170, "B20ms": 170,
}

// In Bsv2, Basv2 and Bpsv2 the letter for the memory says the share: the more memory per vCPU, the
// more of the vCPU.
const (
	burstableTiny = 200 // t: B2ts_v2, B2ats_v2, B2pts_v2
	burstableLow  = 300 // l: B4ls_v2, B4als_v2, B4pls_v2
	burstableMost = 400
	// burstableLeast is that of the sizes with the least of those that can be nodes. Sizes that
	// Microsoft's tables did not have yet count with it.
	burstableLeast = 170
)

// SustainedPermille is the part of its vCPUs that the size has all the time, in thousandths: 1000
// unless the size is burstable.
func (s Size) SustainedPermille() int64 {
	switch {
	case s.Family != "B":
		return 1000
	case s.Version == "1":
		if share, ok := firstBurstable[strings.TrimPrefix(s.Name, s.Tier+"_")]; ok {
			return share
		}
	case s.Version != "2":
	case s.HasFeature('t'):
		return burstableTiny
	case s.HasFeature('l'):
		return burstableLow
	default:
		return burstableMost
	}
	return burstableLeast
}
