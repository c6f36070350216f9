// SPDX-License-Identifier: Apache-2.0

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

// agentPools are those of the cluster.
type agentPools struct {
	byName map[string]*agentPool // in lower case
	sub    *subscription
	clock  *clock
}

const agentPoolIn = inGroup + "/providers/microsoft.containerservice/managedclusters/{cluster}/agentpools/{pool}"

func (ap *agentPools) routes() []route {
	return []route{
		azure("GET", agentPoolIn, "AgentPools.Get", callAKS, ap.get),
		azure("PUT", agentPoolIn, "AgentPools.CreateOrUpdate", putAKS, ap.put),
	}
}

const modeMachines = "Machines"

// add makes a pool of the cluster. Callers hold the lock.
func (ap *agentPools) add(name, mode string, document map[string]any) *agentPool {
	group := ap.sub.cluster
	id := ap.sub.resourceID(group, aksSpace, "managedClusters", ap.sub.cluster, "agentPools", name)
	p := &agentPool{common: ap.sub.newCommon(id, name, group), document: document, mode: mode}
	ap.byName[strings.ToLower(name)] = p
	return p
}

func (p *agentPool) view() map[string]any {
	return map[string]any{"id": p.id, "name": p.name, "type": poolKind, "properties": merged(p.document, map[string]any{
		"mode": p.mode, "type": "VirtualMachines", "provisioningState": succeeded, "eTag": p.etag,
	})}
}

// poolOf finds the request's pool, or refuses as AKS does. Callers hold the lock.
func (ap *agentPools) poolOf(r *request) (*agentPool, error) {
	if err := ap.checkCluster(r); err != nil {
		return nil, err
	}
	if p := ap.byName[strings.ToLower(r.params["pool"])]; p != nil {
		return p, nil
	}
	return nil, flat(notFound("NotFound", "Could not find the agent pool %s in cluster %s.", r.params["pool"], r.params["cluster"]))
}

func (ap *agentPools) checkCluster(r *request) error {
	g, err := ap.sub.groupOf(r)
	if err != nil {
		return err
	}
	if !strings.EqualFold(g.name, ap.sub.cluster) || !strings.EqualFold(r.params["cluster"], ap.sub.cluster) {
		return resourceNotFound("Microsoft.ContainerService/managedClusters", r.params["cluster"], g.name)
	}
	return nil
}

// machinesPoolOf is poolOf for what only pools of single machines can do.
func (ap *agentPools) machinesPoolOf(r *request) (*agentPool, error) {
	p, err := ap.poolOf(r)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(p.mode, modeMachines) {
		return nil, flat(badRequest("OperationNotAllowed", "Machines can be made in agent pools of mode Machines only; %s has the mode %s.", p.name, p.mode))
	}
	return p, nil
}

func (ap *agentPools) get(r *request) (reply, error) {
	ap.clock.Lock()
	defer ap.clock.Unlock()
	p, err := ap.poolOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(p.view())
}

// put makes a pool of mode Machines. Pools of other modes would have to scale by
// themselves, which nothing here does.
func (ap *agentPools) put(r *request) (reply, error) {
	var body struct {
		Properties map[string]any `json:"properties"`
	}
	if err := r.decode(&body); err != nil {
		return reply{}, err
	}
	ap.clock.Lock()
	defer ap.clock.Unlock()
	if err := ap.checkCluster(r); err != nil {
		return reply{}, err
	}
	if mode, _ := body.Properties["mode"].(string); !strings.EqualFold(mode, modeMachines) {
		return reply{}, flat(badRequest("InvalidParameter", "The emulator makes agent pools of mode Machines only, not %q.", mode))
	}
	if p := ap.byName[strings.ToLower(r.params["pool"])]; p != nil {
		return ok(p.view())
	}
	return answer(http.StatusCreated, nil, ap.add(r.params["pool"], modeMachines, body.Properties).view())
}

// flat is how AKS writes most of its refusals.
func flat(e *Error) *Error {
	e.Flat = true
	return e
}
