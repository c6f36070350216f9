package azureemulator

import (
	"net/http"
	"strings"
)

const (
	poolKind    = "Microsoft.ContainerService/managedClusters/agentPools"
	machineKind = poolKind + "/machines"
	aksSpace    = "Microsoft.ContainerService"
)

// agentPool is one of the cluster's. Only in one of mode Machines may clients make and
// end single machines.
type agentPool struct {
	common
	document map[string]any
	mode     string
}

const modeMachines = "Machines"

// addPool makes a pool of the cluster. Callers hold mu.
func (s *Server) addPool(name, mode string, document map[string]any) *agentPool {
	group := s.options.ClusterName
	id := s.resourceID(group, aksSpace, "managedClusters", s.options.ClusterName, "agentPools", name)
	p := &agentPool{common: s.newCommon(id, name, group), document: document, mode: mode}
	s.pools[strings.ToLower(name)] = p
	return p
}

func (p *agentPool) view() map[string]any {
	return map[string]any{"id": p.id, "name": p.name, "type": poolKind, "properties": merged(p.document, map[string]any{
		"mode": p.mode, "type": "VirtualMachines", "provisioningState": succeeded, "eTag": p.etag,
	})}
}

// poolOf finds the request's pool, or refuses as AKS does. Callers hold mu.
func (s *Server) poolOf(r *request) (*agentPool, error) {
	if err := s.checkCluster(r); err != nil {
		return nil, err
	}
	if p := s.pools[strings.ToLower(r.params["pool"])]; p != nil {
		return p, nil
	}
	return nil, flat(notFound("NotFound", "Could not find the agent pool %s in cluster %s.", r.params["pool"], r.params["cluster"]))
}

func (s *Server) checkCluster(r *request) error {
	g, err := s.groupOf(r)
	if err != nil {
		return err
	}
	if !strings.EqualFold(g.name, s.options.ClusterName) || !strings.EqualFold(r.params["cluster"], s.options.ClusterName) {
		return resourceNotFound("Microsoft.ContainerService/managedClusters", r.params["cluster"], g.name)
	}
	return nil
}

// machinesPoolOf is poolOf for what only pools of single machines can do.
func (s *Server) machinesPoolOf(r *request) (*agentPool, error) {
	p, err := s.poolOf(r)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(p.mode, modeMachines) {
		return nil, flat(badRequest("OperationNotAllowed", "Machines can be made in agent pools of mode Machines only; %s has the mode %s.", p.name, p.mode))
	}
	return p, nil
}

func (s *Server) getPool(r *request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.poolOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(p.view())
}

// putPool makes a pool of mode Machines. Pools of other modes would have to scale by
// themselves, which nothing here does.
func (s *Server) putPool(r *request) (reply, error) {
	var body struct {
		Properties map[string]any `json:"properties"`
	}
	if err := r.decode(&body); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkCluster(r); err != nil {
		return reply{}, err
	}
	if mode, _ := body.Properties["mode"].(string); !strings.EqualFold(mode, modeMachines) {
		return reply{}, flat(badRequest("InvalidParameter", "The emulator makes agent pools of mode Machines only, not %q.", mode))
	}
	if p := s.pools[strings.ToLower(r.params["pool"])]; p != nil {
		return ok(p.view())
	}
	return answer(http.StatusCreated, nil, s.addPool(r.params["pool"], modeMachines, body.Properties).view())
}

// flat is how AKS writes most of its refusals.
func flat(e *Error) *Error {
	e.Flat = true
	return e
}
