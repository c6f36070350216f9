package azureemulator

import (
	"fmt"
	"net/http"
)

// A grant is what one role lets a client do, as Microsoft.Authorization shows it.
type grant struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions"`
}

// grants are those of the client on a subnet: to do all but give roles to others; and where
// it may not join, to read everything and to make machines.
func (n *subnet) grants() []grant {
	if n.closed {
		return []grant{{[]string{"*/read"}, []string{}}, {[]string{"Microsoft.Compute/*"}, []string{}}}
	}
	return []grant{{[]string{"*"}, []string{"Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write"}}}
}

// SetJoin gives clients the right to put interfaces into a subnet, which they have at the
// start, or takes it away.
func (s *Server) SetJoin(subnetID string, allowed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.subnetByID(subnetID)
	if n == nil {
		return fmt.Errorf("there is no subnet %s", subnetID)
	}
	n.closed = !allowed
	return nil
}

// listSubnetPermissions shows what the client may do to a subnet.
func (s *Server) listSubnetPermissions(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.subnetOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(map[string]any{"value": n.grants()})
}

// mayNotJoin is how Azure refuses a machine whose client lacks the right to its subnet.
func (s *Server) mayNotJoin(n *subnet, id string) *Error {
	return refuse(http.StatusForbidden, "LinkedAuthorizationFailed",
		"The client '%[1]s' with object id '%[1]s' has permission to perform action 'Microsoft.Network/networkInterfaces/write' on scope '%[2]s'; however, it does not have permission to perform action(s) 'Microsoft.Network/virtualNetworks/subnets/join/action' on the linked scope(s) '%[3]s' (respectively) or the linked scope(s) are invalid.",
		s.options.ClientID, id, n.id)
}

func (s *Server) adminSetJoin(r *request) (reply, error) {
	var j struct {
		ID      string `json:"id"`
		Allowed bool   `json:"allowed"`
	}
	return decodeThen(r, &j, func() error { return s.SetJoin(j.ID, j.Allowed) })
}
