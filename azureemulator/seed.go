// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"fmt"
)

// An initialCluster makes the first resources of a new AKS cluster.
type initialCluster struct {
	networks  *virtualNetworks
	groups    *securityGroups
	balancers *loadBalancers
	pools     *agentPools
	compute   *compute
	sizes     *sizes
	ops       *operations
}

// create makes the cluster's resource group and its node resource group with network, load
// balancer and system pool.
func (s initialCluster) create(o Options, sub *subscription) error {
	sub.clock.Lock()
	defer sub.clock.Unlock()
	sub.addGroup(sub.nodeGroup)
	sub.addGroup(sub.cluster)

	// The name follows AKS's, which clients search by.
	nsgID := s.groups.add("aks-agentpool-" + o.clusterID() + "-nsg")

	prefix, err := subnetPrefix(o.SubnetPrefix)
	if err != nil {
		return err
	}
	nodes, err := s.networks.add(sub.nodeGroup, sub.nodeNetwork, "aks-subnet", prefix)
	if err != nil {
		return err
	}
	nodes.nsg = nsgID

	s.balancers.add("kubernetes", "aksOutboundBackendPool", "kubernetes")
	s.pools.add(o.MachinesPool, modeMachines, nil)
	return s.createSystemPool(o, sub.nodeSubnetID())
}

// createSystemPool makes VMs as a client would, and has them run already.
func (s initialCluster) createSystemPool(o Options, subnet string) error {
	for i := range max(o.SystemNodes, 0) {
		name := fmt.Sprintf("aks-system-%s-vms%d", o.clusterID(), i+1)
		body, err := json.Marshal(systemNode(o, subnet, name, s.sizes.zonesOf(o.SystemNodeSize), i))
		if err != nil {
			return fmt.Errorf("describing %s: %w", name, err)
		}
		w, err := readVMRequest(body)
		if err != nil {
			return err
		}
		v, err := s.compute.create(o.NodeResourceGroup, name, w)
		if err != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
		s.ops.finish(v.at, nil)
		v.life++
		v.state, v.power, v.at, v.system = succeeded, running, nil, true
	}
	return nil
}

// systemNode is the body of the system pool's i-th VM; they are spread over the zones.
func systemNode(o Options, subnet, name string, zones []string, i int) map[string]any {
	body := map[string]any{
		"location": o.Location,
		"tags":     map[string]string{"aks-managed-poolName": "system", "aks-managed-creationSource": "vms"},
		"properties": map[string]any{
			"hardwareProfile": map[string]string{"vmSize": o.SystemNodeSize},
			"storageProfile": map[string]any{
				"imageReference": ref("/CommunityGalleries/" + ubuntuGallery + "/images/2204gen2containerd"),
				"osDisk":         map[string]any{"createOption": "FromImage", "diskSizeGB": 128, "deleteOption": "Delete"},
			},
			"osProfile": map[string]string{"computerName": name, "adminUsername": "azureuser"},
			"networkProfile": map[string]any{
				"networkApiVersion": "2022-11-01",
				"networkInterfaceConfigurations": []any{map[string]any{"name": name, "properties": map[string]any{
					"primary": true, "deleteOption": "Delete",
					"ipConfigurations": []any{map[string]any{"name": "ipconfig1", "properties": map[string]any{
						"subnet": ref(subnet),
					}}},
				}}},
			},
		},
	}
	if len(zones) > 0 {
		body["zones"] = []string{zones[i%len(zones)]}
	}
	return body
}
