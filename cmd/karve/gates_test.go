// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/karve-dev/karve/controller/manager"
)

func TestFeatureGates(t *testing.T) {
	for gates, want := range map[string]manager.Features{
		"":                 {},
		"NodeOverlay=true": {NodeOverlay: true},
		"NodeRepair=true":  {NodeRepair: true},
		"NodeRepair=false, StaticCapacity=true,CapacityBuffer=false": {StaticCapacity: true},
		"NodeOverlay=true,NodeOverlay=false":                         {},
	} {
		if got, err := features(gates); err != nil || got != want {
			t.Errorf("%q: %+v, %v", gates, got, err)
		}
	}
	for _, bad := range []string{"NodeOverlay", "NodeOverlay=yes", "=,="} {
		if _, err := features(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
