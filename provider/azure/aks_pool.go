// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	aks "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerservice/armcontainerservice/v9"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/aksmachine"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
)

// An aksPool is the agent pool of mode Machines in which AKS creates karve's machines. It speaks
// to AKS's machine API. A nil pool has no machines.
type aksPool struct {
	name, cluster string
	group         string // resource group of the cluster
	conn          *connection
	machines      *aks.MachinesClient
	pools         *aks.AgentPoolsClient
	resource      armlist.Resource
	vmNames       *regexp.Regexp // matches names of virtual machines of the pool; captures the handle
	// pages is the number of pages of the last list.
	pages atomic.Int64
}

// newAKSPool returns nil when the options name no pool.
func newAKSPool(c *connection, cluster string, o AKSMachines) (*aksPool, error) {
	if o.Pool == "" {
		return nil, nil
	}
	factory, err := aks.NewClientFactory(c.subscription, c.credential, c.options)
	if err != nil {
		return nil, fmt.Errorf("making container service clients: %w", err)
	}
	return &aksPool{
		name: o.Pool, cluster: cluster, group: o.ResourceGroup, conn: c,
		machines: factory.NewMachinesClient(), pools: factory.NewAgentPoolsClient(),
		resource: armlist.Resource{
			Kind: "VMs of agent pool " + o.Pool, Version: "2026-04-02-preview",
			Provider: "Microsoft.ContainerService/managedClusters/" + url.PathEscape(cluster) + "/agentPools/" + url.PathEscape(o.Pool) + "/machines",
		},
		vmNames: regexp.MustCompile(`(?i)^aks-` + regexp.QuoteMeta(o.Pool) + `-(.+)-\d{8}-vm$`),
	}, nil
}

// handleOf returns the handle of a virtual machine, by its name, and whether it is in the pool:
// its handle is then the name of its AKS machine.
func (a *aksPool) handleOf(vm string) (handle string, inPool bool) {
	if a != nil {
		if found := a.vmNames.FindStringSubmatch(vm); found != nil {
			return strings.ToLower(found[1]), true
		}
	}
	return strings.ToLower(vm), false
}

// placeholderVMName returns a stand-in for the name of a virtual machine that does not exist yet;
// AKS's own name has other digits.
func (a *aksPool) placeholderVMName(handle string) string {
	return "aks-" + strings.ToLower(a.name) + "-" + handle + "-00000000-vm"
}

// missing says what to do when the pool does not exist.
func (a *aksPool) missing() string {
	return fmt.Sprintf("cluster %s in resource group %s has no agent pool %s: add one with az aks nodepool add --mode Machines", a.cluster, a.group, a.name)
}

// addRows appends the machines that AKS lists to the virtual machines. The AKS machine exists for
// longer than its virtual machine, so listing it second misses none.
func (a *aksPool) addRows(vms armlist.RowsFunc) armlist.RowsFunc {
	return func(ctx context.Context) ([]json.RawMessage, int, error) {
		rows, pages, err := vms(ctx)
		if err != nil {
			return nil, 0, err
		}
		machines, err := a.rows(ctx)
		return append(rows, machines...), pages, err
	}
}

// rows lists the machines of the pool. A pool that does not exist has none.
func (a *aksPool) rows(ctx context.Context) ([]json.RawMessage, error) {
	rows, pages, err := a.conn.rows(ctx, a.resource, a.group)
	if armerr.Classify(err).Kind == armerr.NotFound {
		return nil, nil
	}
	a.pages.Store(int64(pages))
	return rows, err
}

// pageEvery limits reading the list to a third of AKS's limit for all requests: 60 a minute.
const pageEvery = 3 * time.Second

// maxListAge returns the maximum age of the list of machines.
func (a *aksPool) maxListAge() time.Duration {
	return max(longListAge, time.Duration(a.pages.Load())*pageEvery)
}

// get reads a machine from AKS.
func (a *aksPool) get(ctx context.Context, handle string) (*virtualMachine, error) {
	resp, err := a.machines.Get(ctx, a.group, a.cluster, a.name, handle, nil)
	if armerr.Classify(err).Kind == armerr.NotFound {
		return nil, provider.ErrNotFound
	}
	if err != nil {
		return nil, armerr.Wrap(err, "reading AKS machine %s", handle)
	}
	m, err := vmOfAKSMachine(&resp.Machine)
	if err != nil {
		return nil, fmt.Errorf("reading AKS machine %s: %w", handle, err)
	}
	return m, nil
}

// An aksMachineSpec is a machine for AKS to create. body is the template that it shares with the
// other machines of the request.
type aksMachineSpec struct {
	name  string
	zones []*string
	tags  map[string]*string
	body  *aks.Machine // without zones and tags
}

// create requests machines of one template with one request.
func (a *aksPool) create(ctx context.Context, machines []aksMachineSpec) []error {
	first := machines[0]
	properties := *first.body.Properties
	body := aks.Machine{Zones: first.zones, Properties: &properties}
	properties.Tags = first.tags
	header := allowSpotVMSystemNode()
	if len(machines) > 1 {
		header["BatchPutMachine"] = []string{batchHeader(machines)}
		body.Zones, properties.Tags = nil, nil
	}
	_, err := a.machines.BeginCreateOrUpdate(policy.WithHTTPHeader(ctx, header), a.group, a.cluster, a.name,
		first.name, body, &aks.MachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	names := make([]string, len(machines))
	for i, m := range machines {
		names[i] = m.name
	}
	return aksmachine.ErrorsOf(err, names)
}

func allowSpotVMSystemNode() http.Header { return http.Header{"AllowSpotVMSystemNode": {"true"}} }

// batchHeader lists what differs between the machines of a batch.
func batchHeader(machines []aksMachineSpec) string {
	type entry struct {
		Name  string             `json:"machineName"`
		Zones []*string          `json:"zones,omitempty"`
		Tags  map[string]*string `json:"tags,omitempty"`
	}
	var header struct {
		Machines []entry `json:"batchMachines"`
	}
	for _, m := range machines {
		header.Machines = append(header.Machines, entry{m.name, m.zones, m.tags})
	}
	text, _ := json.Marshal(header) // strings only, which cannot fail
	return string(text)
}

// delete deletes machines with one request. When AKS refuses with an unknown error, one of the
// machines may be the cause: delete then requests each half separately, and their halves, so that
// the other machines are deleted.
func (a *aksPool) delete(ctx context.Context, handles []string) []error {
	_, err := a.pools.BeginDeleteMachines(ctx, a.group, a.cluster, a.name,
		aks.AgentPoolDeleteMachinesParameter{MachineNames: to.SliceOfPtrs(handles...)}, nil)
	if half := len(handles) / 2; half > 0 && armerr.Classify(err).Kind == armerr.OtherFailure {
		return append(a.delete(ctx, handles[:half]), a.delete(ctx, handles[half:])...)
	}
	err = armerr.Shareable(err)
	errs := make([]error, len(handles))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// setTags changes the tags of an AKS machine, and of all resources that AKS created for it, with
// one request that holds the whole machine as the list had it. This is safe only with the
// machine's ETag: without it, the request would recreate a machine that was deleted meanwhile.
func (a *aksPool) setTags(ctx context.Context, handle string, m *aksMachine, tags map[string]*string) error {
	_, err := a.machines.BeginCreateOrUpdate(policy.WithHTTPHeader(ctx, allowSpotVMSystemNode()), a.group, a.cluster, a.name, handle,
		aksmachine.WithTags(m.row, tags), &aks.MachinesClientBeginCreateOrUpdateOptions{IfMatch: m.row.Properties.ETag})
	return err
}
