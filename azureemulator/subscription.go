// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// subscription is what every resource's id and place come from: the ids of the client, its one
// region and the resource groups.
type subscription struct {
	id, tenant, client string
	location           string
	// cluster is the AKS cluster, whose resource group has the same name; nodeGroup and
	// nodeNetwork are where its nodes are.
	cluster, nodeGroup, nodeNetwork string
	// url is where links in answers lead: https://host:port, without a slash at the end.
	url      string
	pageSize int
	groups   map[string]*group // by lower-case name
	clock    *clock
	chance   *chance
}

func newSubscription(o Options, c *clock, ids *chance) *subscription {
	return &subscription{
		id: o.SubscriptionID, tenant: o.TenantID, client: o.ClientID, location: o.Location,
		cluster: o.ClusterName, nodeGroup: o.NodeResourceGroup, nodeNetwork: "aks-vnet-" + o.clusterID(),
		url: nowhere, pageSize: o.PageSize, groups: map[string]*group{}, clock: c, chance: ids,
	}
}

func (s *subscription) routes() []route {
	return []route{
		azure("GET", inSubscription+"/resourcegroups", "ResourceGroups.List", reads, s.listGroups),
		azure("GET", inGroup, "ResourceGroups.Get", reads, s.getGroup),
	}
}

// group is a resource group.
type group struct{ name, location string }

// groupOf finds the request's resource group, or refuses as Azure does.
// Callers hold the lock.
func (s *subscription) groupOf(r *request) (*group, error) {
	g, exists := s.groups[strings.ToLower(r.params["group"])]
	if !exists {
		return nil, notFound("ResourceGroupNotFound", "Resource group '%s' could not be found.", r.params["group"])
	}
	return g, nil
}

func (s *subscription) addGroup(name string) {
	if s.groups[strings.ToLower(name)] == nil {
		s.groups[strings.ToLower(name)] = &group{name: name, location: s.location}
	}
}

// checkLocation refuses a region that this emulator does not sell in.
func (s *subscription) checkLocation(location string) error {
	if normalLocation(location) == normalLocation(s.location) {
		return nil
	}
	return refuse(http.StatusBadRequest, "LocationNotAvailableForResourceType",
		"The provided location '%s' is not available for resource type 'Microsoft.Compute/virtualMachines'. List of available regions for the resource type is '%s'.", location, s.location)
}

// normalLocation reads "East US" as "eastus".
func normalLocation(location string) string {
	return strings.ToLower(strings.ReplaceAll(location, " ", ""))
}

// resourceID builds a canonical id. parts are type, name, subtype, name, …
func (s *subscription) resourceID(group, namespace string, parts ...string) string {
	return "/subscriptions/" + s.id + "/resourceGroups/" + group +
		"/providers/" + namespace + "/" + strings.Join(parts, "/")
}

func (s *subscription) subnetID(group, network, name string) string {
	return s.resourceID(group, "Microsoft.Network", "virtualNetworks", network, "subnets", name)
}

// nodeSubnetID is the cluster's own subnet.
func (s *subscription) nodeSubnetID() string {
	return s.subnetID(s.nodeGroup, s.nodeNetwork, "aks-subnet")
}

func (s *subscription) newCommon(id, name, group string) common {
	return common{id: id, name: name, group: group, location: s.location, etag: s.chance.uuid(), created: time.Now()}
}

// page cuts keys off after a page, and links to the next.
func (s *subscription) page(keys []string, r *request) (shown []string, next string) {
	if len(keys) <= s.pageSize {
		return keys, ""
	}
	shown = keys[:s.pageSize]
	return shown, s.nextLink(r, shown[len(shown)-1])
}

func (s *subscription) nextLink(r *request, last string) string {
	query := maps.Clone(r.query)
	query.Set("$skiptoken", last)
	return s.url + r.http.URL.Path + "?" + url.Values(query).Encode()
}

func (s *subscription) listGroups(r *request) (reply, error) {
	s.clock.Lock()
	defer s.clock.Unlock()
	values := []any{}
	for _, k := range slices.Sorted(maps.Keys(s.groups)) {
		values = append(values, s.groupView(s.groups[k]))
	}
	return ok(map[string]any{"value": values})
}

func (s *subscription) getGroup(r *request) (reply, error) {
	s.clock.Lock()
	defer s.clock.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	return ok(s.groupView(g))
}

func (s *subscription) groupView(g *group) any {
	return map[string]any{
		"id":   "/subscriptions/" + s.id + "/resourceGroups/" + g.name,
		"name": g.name, "type": "Microsoft.Resources/resourceGroups", "location": g.location,
		"properties": map[string]string{"provisioningState": succeeded},
	}
}
