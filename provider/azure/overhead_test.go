// SPDX-License-Identifier: Apache-2.0

package azure

import "testing"

func TestReserve(t *testing.T) {
	for _, test := range []struct {
		vcpus, memoryMiB, maxPods int64
		minor                     int
		cpu, memory, eviction     int64 // milli-cores, MiB
	}{
		{2, 8 << 10, 30, 36, 100, 650, 100},
		{3, 8 << 10, 110, 36, 120, 2048, 100}, // a quarter of the memory is the most
		{4, 64 << 10, 110, 36, 140, 2250, 100},
		{4, 64 << 10, 250, 0, 140, 5050, 100}, // version unknown: as of today
		{64, 256 << 10, 250, 29, 740, 5050, 100},
		{2, 7 << 10, 110, 28, 100, 1638, 750},
		{4, 8 << 10, 110, 28, 140, 1843, 750},
		{8, 64 << 10, 110, 28, 180, 5611, 750},
	} {
		r := nodeOverheadFor(test.vcpus, test.memoryMiB, test.maxPods, 128, test.minor)
		if r.milliCPU != test.cpu || r.memory != test.memory*mebibyte || r.eviction != test.eviction*mebibyte {
			t.Errorf("%+v: got %dm, %dMi, eviction %dMi", test, r.milliCPU, r.memory/mebibyte, r.eviction/mebibyte)
		}
	}
}
