package azureemulator

import (
	"encoding/json"
	"fmt"
	"strings"
)

// vnetName and nsgName follow AKS's naming, which clients search by.
func (s *Server) vnetName() string { return "aks-vnet-" + s.options.clusterID() }
func (s *Server) nsgName() string  { return "aks-agentpool-" + s.options.clusterID() + "-nsg" }

// seed makes what a new AKS cluster has: its resource group and its node
// resource group with network, load balancer and system pool.
func (s *Server) seed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quota = newQuota(s.options, s.sizes)
	group := s.options.NodeResourceGroup
	s.addGroup(group)
	s.addGroup(s.options.ClusterName)

	nsgID := s.addSecurityGroup(s.nsgName())

	prefix, err := subnetPrefix(s.options.SubnetPrefix)
	if err != nil {
		return err
	}
	nodes, err := s.addSubnet(group, s.vnetName(), "aks-subnet", prefix)
	if err != nil {
		return err
	}
	nodes.nsg = nsgID

	s.addLoadBalancer("kubernetes", "aksOutboundBackendPool", "kubernetes")
	s.addPool(s.options.MachinesPool, modeMachines, nil)
	return s.seedSystemPool()
}

func (s *Server) addGroup(name string) {
	if s.groups[strings.ToLower(name)] == nil {
		s.groups[strings.ToLower(name)] = &group{name: name, location: s.options.Location}
	}
}

// seedSystemPool makes machines as a client would, then says that they have
// long been up.
func (s *Server) seedSystemPool() error {
	for i := range max(s.options.SystemNodes, 0) {
		name := fmt.Sprintf("aks-system-%s-vms%d", s.options.clusterID(), i+1)
		body, err := json.Marshal(s.systemNode(name, i))
		if err != nil {
			return fmt.Errorf("describing %s: %w", name, err)
		}
		w, err := readWish(body)
		if err != nil {
			return err
		}
		if _, err := s.createVM(s.options.NodeResourceGroup, name, w); err != nil {
			return fmt.Errorf("creating %s: %w", name, err)
		}
		v := s.vms[key(s.options.NodeResourceGroup, name)]
		s.operations.finish(v.at, nil)
		v.life++
		v.state, v.power, v.at, v.hosted = succeeded, running, nil, true
	}
	return nil
}

// systemNode is the body of a system pool's machine, spread over the zones.
func (s *Server) systemNode(name string, i int) map[string]any {
	body := map[string]any{
		"location": s.options.Location,
		"tags":     map[string]string{"aks-managed-poolName": "system", "aks-managed-creationSource": "vms"},
		"properties": map[string]any{
			"hardwareProfile": map[string]string{"vmSize": s.options.SystemNodeSize},
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
						"subnet": ref(s.SubnetID()),
					}}},
				}}},
			},
		},
	}
	size := s.sizes[strings.ToLower(s.options.SystemNodeSize)]
	if zones, _ := size.ZonesIn(s.options.Location); len(zones) > 0 {
		body["zones"] = []string{zones[i%len(zones)]}
	}
	return body
}
