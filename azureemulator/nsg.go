package azureemulator

import "slices"

// nsg is a network security group. The emulator filters no traffic.
type nsg struct{ common }

// AddSecurityGroup makes a group in the node resource group and returns its ID.
func (s *Server) AddSecurityGroup(name string) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addSecurityGroup(name)
}

// SecurityGroups are the names of the groups in the node resource group.
func (s *Server) SecurityGroups() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, g := range s.nsgs {
		names = append(names, g.name)
	}
	slices.Sort(names)
	return names
}

// RemoveSecurityGroup takes one away. Azure would refuse while an interface names it.
func (s *Server) RemoveSecurityGroup(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nsgs, key(s.options.NodeResourceGroup, name))
}

func (s *Server) addSecurityGroup(name string) (id string) {
	group := s.options.NodeResourceGroup
	id = s.resourceID(group, "Microsoft.Network", "networkSecurityGroups", name)
	s.nsgs[key(group, name)] = &nsg{common: s.newCommon(id, name, group)}
	return id
}

func (g *nsg) view() any {
	return g.common.view("Microsoft.Network/networkSecurityGroups", map[string]any{
		"provisioningState": succeeded, "securityRules": []any{},
	})
}

func (s *Server) listSecurityGroups(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return listAll(s, r, s.nsgs, (*nsg).view)
}

func (s *Server) getSecurityGroup(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := find(s, r, s.nsgs, "Microsoft.Network/networkSecurityGroups", "nsg")
	if err != nil {
		return reply{}, err
	}
	return ok(g.view())
}
