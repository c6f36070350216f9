// SPDX-License-Identifier: Apache-2.0

package sku

import "testing"

func TestEphemeralPlacementFallsThrough(t *testing.T) {
	disks := LocalDisks{nvme: 60 * Gigabyte, cache: 0, resource: 200 * Gigabyte}
	for size, want := range map[int64]string{30: "NvmeDisk", 60: "NvmeDisk", 61: "ResourceDisk", 200: "ResourceDisk", 201: ""} {
		if got, ok := disks.Placement(size); string(got) != want || ok != (want != "") {
			t.Errorf("%d GB goes to %q, want %q", size, got, want)
		}
	}
	if disks.LargestGB() != 200 {
		t.Errorf("the largest disk is %d GB", disks.LargestGB())
	}
}
