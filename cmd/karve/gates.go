// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/karve-dev/karve/controller/manager"
)

// features reads --feature-gates: Name=true or Name=false, comma separated. Gates
// of Karpenter's that mean nothing here are passed over, as Karpenter does with
// those it does not know.
func features(gates string) (manager.Features, error) {
	var out manager.Features
	known := map[string]*bool{
		"NodeOverlay": &out.NodeOverlay, "CapacityBuffer": &out.CapacityBuffer, "StaticCapacity": &out.StaticCapacity, "NodeRepair": &out.NodeRepair,
		"SpotToSpotConsolidation": &out.SpotToSpotConsolidation,
	}
	for gate := range strings.SplitSeq(gates, ",") {
		if strings.TrimSpace(gate) == "" {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(gate), "=")
		if value != "true" && value != "false" {
			return manager.Features{}, fmt.Errorf("must be a list of Name=true or Name=false, got %q", gate)
		}
		if on := known[name]; on != nil {
			*on = value == "true"
		}
	}
	return out, nil
}
