// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/karve-dev/karve/api/v1beta1"
	"github.com/karve-dev/karve/azureemulator/catalog"
	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/engine/quantity"
)

// withConstrained adds the sizes with some of their cores turned off. The product
// leaves them out, because they cost as much as the full size; here they make the
// list of instance types longer for both sides.
func withConstrained(types []offering.InstanceType, region string) ([]offering.InstanceType, error) {
	sizes, err := catalog.Sizes()
	if err != nil {
		return nil, fmt.Errorf("listing constrained sizes: %w", err)
	}
	full := make(map[string]*offering.InstanceType, len(types))
	for i := range types {
		full[types[i].Name] = &types[i]
	}
	out := slices.Clone(types)
	for _, s := range sizes {
		parent := full[s.Parent]
		if _, offered := s.ZonesIn(region); parent == nil || !offered || s.VCPUsAvailable < 2 {
			continue
		}
		t, err := constrained(s, parent, region)
		if err != nil {
			return nil, err
		}
		if len(t.Offerings) > 0 {
			out = append(out, t)
		}
	}
	return out, nil
}

// constrained is the full size with fewer cores, where it is sold at what it costs.
func constrained(s catalog.Size, full *offering.InstanceType, region string) (offering.InstanceType, error) {
	t := *full
	t.Name = s.Name
	cores := []string{strconv.Itoa(s.VCPUsAvailable)}
	t.Labels = maps.Clone(full.Labels)
	t.Labels[v1beta1.LabelSKUName] = []string{s.Name}
	t.Labels[v1beta1.LabelSKUCPU], t.Labels[v1beta1.AKSLabelCPU] = cores, cores
	t.Capacity = maps.Clone(full.Capacity)
	t.Capacity[quantity.NameCPU] = int64(s.VCPUsAvailable) * 1000
	zones, _ := s.ZonesIn(region)
	price, _ := s.PriceIn(region)
	t.Offerings = nil
	for _, o := range full.Offerings {
		usd := price.OnDemand
		if o.CapacityType == offering.Spot {
			usd = price.Spot
		}
		zone, zonal := strings.CutPrefix(o.Zone, region+"-")
		if usd == 0 || !zonal || !slices.Contains(zones, zone) {
			continue
		}
		vm, err := offering.USDPerHour(usd)
		if err != nil {
			return t, fmt.Errorf("pricing %s: %w", s.Name, err)
		}
		o.Price = vm.Add(o.Extras)
		t.Offerings = append(t.Offerings, o)
	}
	return t, nil
}
