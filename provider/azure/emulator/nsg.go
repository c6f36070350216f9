package emulator

// nsg is a network security group. The emulator filters no traffic.
type nsg struct{ common }

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
