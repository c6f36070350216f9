// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/aksmachine"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
	"github.com/karve-dev/karve/provider/azure/internal/armtext"
)

// byAKS is the backend that lets AKS create machines, in one agent pool of the cluster whose
// mode is Machines. AKS chooses the name of the virtual machine and how it becomes a node.
type byAKS struct {
	p        *Provider
	machines *aks.MachinesClient
	pools    *aks.AgentPoolsClient
	shelf    armlist.Resource
	virtual  *regexp.Regexp // matches names of virtual machines of the pool; captures the handle

	making *aksmachine.Batcher[newMachine]
	ending *aksmachine.Batcher[string] // by handle
	// pages is the number of pages of the last list.
	pages atomic.Int64
}

// A newMachine is a machine for AKS to create. body is the template that it shares with the other
// machines of the request.
type newMachine struct {
	name  string
	zones []*string
	tags  map[string]*string
	body  *aks.Machine // without zones and tags
}

func newByAKS(p *Provider) (*byAKS, error) {
	o := &p.opts
	factory, err := aks.NewClientFactory(o.SubscriptionID, p.credential, limited(o.ClientOptions, p.limits, p.credential))
	if err != nil {
		return nil, fmt.Errorf("making container service clients: %w", err)
	}
	a := &byAKS{p: p, machines: factory.NewMachinesClient(), pools: factory.NewAgentPoolsClient()}
	a.shelf = armlist.Resource{
		What: "VMs of agent pool " + o.AKSMachines.Pool, Version: "2026-04-02-preview",
		Provider: "Microsoft.ContainerService/managedClusters/" + url.PathEscape(o.ClusterName) + "/agentPools/" + url.PathEscape(o.AKSMachines.Pool) + "/machines",
	}
	a.virtual = regexp.MustCompile(`(?i)^aks-` + regexp.QuoteMeta(o.AKSMachines.Pool) + `-(.+)-\d{8}-vm$`)
	a.making = aksmachine.NewBatcher(aksmachine.Batching(o.AKSMachines.Batching), o.Panics, a.create)
	a.ending = aksmachine.NewBatcher(aksmachine.Batching(o.AKSMachines.Batching), o.Panics, a.remove)
	return a, nil
}

// maxAKSName is one less than AKS's limit of 35 characters, like the names that Karpenter gives.
const maxAKSName = 34

func (a *byAKS) handle(claim provider.Claim) string {
	hash := hashOf(claim.UID)
	return dnsSafe(claim.Name, maxAKSName-len("-")-len(hash)) + "-" + hash
}

// virtualName is empty: AKS reports the name with the machine.
func (a *byAKS) virtualName(string) string { return "" }

// nameToBe returns a stand-in for the name of a virtual machine that does not exist yet; AKS's
// own name has other digits.
func (a *byAKS) nameToBe(handle string) string {
	return "aks-" + strings.ToLower(a.p.opts.AKSMachines.Pool) + "-" + handle + "-00000000-vm"
}

// handleIn returns the AKS machine that a virtual machine belongs to, by the virtual machine's
// name.
func (a *byAKS) handleIn(virtual string) (string, bool) {
	if found := a.virtual.FindStringSubmatch(virtual); found != nil {
		return strings.ToLower(found[1]), true
	}
	return "", false
}

// mayBegin and mayEnd never hold a call back: one request covers many machines, so each request
// waits for the rate limits in the HTTP pipeline, and fails there when the wait is long.
func (a *byAKS) mayBegin(*launch) time.Duration { return 0 }
func (a *byAKS) mayEnd(string) bool             { return true }

func (a *byAKS) begin(ctx context.Context, l *launch, m *machineType, choice offering.Ref) (map[string]string, error) {
	body, err := a.body(ctx, l, m, choice)
	if err != nil {
		return nil, prepare(err)
	}
	template, err := json.Marshal(body)
	if err != nil {
		return nil, prepare(fmt.Errorf("writing AKS machine %s: %w", l.name, err))
	}
	one := newMachine{name: l.name, tags: armtext.Pointers(a.tags(l)), body: body}
	if zone := a.p.zones.number(choice.Zone); zone != "" {
		one.zones = []*string{to.Ptr(zone)}
	}
	sum := sha256.Sum256(template)
	err = a.making.Order(ctx, hex.EncodeToString(sum[:]), one)
	if errors.Is(err, aksmachine.ErrNotSent) {
		return nil, prepare(err)
	}
	if r := armerr.Classify(err); r.Kind == armerr.NotFound {
		r.Advice = a.poolMissing()
		a.p.stockouts.PauseClass(l.class.Name, ClassWithoutPool, r, poolMissingTTL)
		return nil, &provider.NotReadyError{Class: l.class.Name, Reason: ClassWithoutPool, Detail: r.Advice}
	}
	if err != nil {
		return nil, err
	}
	a.p.inFlight.put(l.name, inFlight{asked: a.p.opts.Now()})
	return nil, nil
}

// final is false: AKS asks Compute later.
func (*byAKS) final() bool { return false }

func (a *byAKS) poolMissing() string {
	o := &a.p.opts
	return fmt.Sprintf("cluster %s in resource group %s has no agent pool %s: add one with az aks nodepool add --mode Machines", o.ClusterName, o.AKSMachines.ResourceGroup, o.AKSMachines.Pool)
}

// tags returns the tags of virtual machines that Compute creates, and the tag that identifies
// AKS machines.
func (a *byAKS) tags(l *launch) map[string]string {
	tags := a.p.owner.vmTags(l.class, l.claim)
	setTag(tags, tagAKSMachine, l.claim.Name)
	return tags
}

// create requests machines of one template with one request.
func (a *byAKS) create(ctx context.Context, orders []newMachine) []error {
	first := orders[0]
	properties := *first.body.Properties
	body := aks.Machine{Zones: first.zones, Properties: &properties}
	properties.Tags = first.tags
	header := http.Header{"AllowSpotVMSystemNode": {"true"}}
	if len(orders) > 1 {
		header["BatchPutMachine"] = []string{batchHeader(orders)}
		body.Zones, properties.Tags = nil, nil
	}
	o := &a.p.opts
	_, err := a.machines.BeginCreateOrUpdate(policy.WithHTTPHeader(ctx, header), o.AKSMachines.ResourceGroup, o.ClusterName, o.AKSMachines.Pool,
		first.name, body, &aks.MachinesClientBeginCreateOrUpdateOptions{IfNoneMatch: to.Ptr("*")})
	names := make([]string, len(orders))
	for i, o := range orders {
		names[i] = o.name
	}
	return aksmachine.ErrorsOf(err, names)
}

// batchHeader lists what differs between the machines of a batch.
func batchHeader(orders []newMachine) string {
	type entry struct {
		Name  string             `json:"machineName"`
		Zones []*string          `json:"zones,omitempty"`
		Tags  map[string]*string `json:"tags,omitempty"`
	}
	var header struct {
		Machines []entry `json:"batchMachines"`
	}
	for _, o := range orders {
		header.Machines = append(header.Machines, entry{o.name, o.zones, o.tags})
	}
	text, _ := json.Marshal(header) // strings only, which cannot fail
	return string(text)
}

// read reads the virtual machine if there is one: Compute allows far more reads than AKS, and
// reports the power state.
func (a *byAKS) read(ctx context.Context, handle string) (*machine, error) {
	if gone, err := a.isGone(ctx, handle); gone || err != nil {
		return nil, cmp.Or(err, provider.ErrNotFound)
	}
	if known := a.p.machines.Last().ByName[handle]; known != nil && !known.bare {
		if vm, err := a.behind(ctx, known); !errors.Is(err, provider.ErrNotFound) {
			return vm, err
		}
	}
	m, err := a.ask(ctx, handle)
	if errors.Is(err, provider.ErrNotFound) {
		return a.forgotten(ctx, handle)
	}
	if err != nil || armtext.Of(m.Name) == "" {
		return m, err
	}
	vm, err := a.behind(ctx, m)
	if errors.Is(err, provider.ErrNotFound) {
		return m, nil
	}
	return vm, err
}

// behind reads the virtual machine behind m.
func (a *byAKS) behind(ctx context.Context, m *machine) (*machine, error) {
	vm, err := byCompute{a.p}.read(ctx, strings.ToLower(armtext.Of(m.Name)))
	if err != nil {
		return nil, err
	}
	vm.handle, vm.maker = m.handle, a
	return join(m, vm), nil
}

// forgotten looks for the virtual machine of a machine that AKS does not know: the virtual
// machine's name in Compute's list contains the handle.
func (a *byAKS) forgotten(ctx context.Context, handle string) (*machine, error) {
	v, err := a.p.machines.Since(ctx, a.p.opts.Now().Add(-a.pace()))
	if err != nil {
		return nil, err
	}
	if m := v.ByName[handle]; m != nil && !m.bare {
		return a.behind(ctx, m)
	}
	return nil, provider.ErrNotFound
}

// isGone reports whether a machine whose deletion was requested does not exist any more: a list
// started since then lacks it, and so does Compute. Reading each one from AKS would take a minute
// for thirty machines.
func (a *byAKS) isGone(ctx context.Context, handle string) (bool, error) {
	f, v := a.p.inFlight.get(handle), a.p.machines.Last()
	if !f.leaving || f.virtual == "" || v.ByName[handle] != nil || v.MayHold(handle) || !v.Started.After(f.asked) {
		return false, nil
	}
	_, err := byCompute{a.p}.read(ctx, f.virtual)
	if errors.Is(err, provider.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// ask reads a machine from AKS.
func (a *byAKS) ask(ctx context.Context, handle string) (*machine, error) {
	o := &a.p.opts
	resp, err := a.machines.Get(ctx, o.AKSMachines.ResourceGroup, o.ClusterName, o.AKSMachines.Pool, handle, nil)
	if armerr.Classify(err).Kind == armerr.NotFound {
		return nil, provider.ErrNotFound
	}
	if err != nil {
		return nil, armerr.Wrap(err, "reading AKS machine %s", handle)
	}
	m, err := a.understand(&resp.Machine)
	if err != nil {
		return nil, fmt.Errorf("reading AKS machine %s: %w", handle, err)
	}
	return m, nil
}

// why returns the reason that AKS reports with the machine.
func (a *byAKS) why(_ context.Context, _ *launch, vm *machine) armerr.Refusal {
	if vm.said != nil && vm.said.failure.Kind != "" {
		return vm.said.failure
	}
	return unexplained()
}

// end requests that AKS deletes its machine together with the virtual machine. If AKS does not
// know the machine, the virtual machine is deleted through Compute.
func (a *byAKS) end(ctx context.Context, vm *machine) error {
	err := a.ending.Order(ctx, "", vm.handle)
	switch {
	case armerr.Classify(err).Kind == armerr.NotFound && vm.bare:
		return nil
	case armerr.Classify(err).Kind == armerr.NotFound:
		return byCompute{a.p}.end(ctx, vm)
	case err != nil:
		return armerr.Wrap(err, "deleting AKS machine %s", vm.handle)
	}
	return nil
}

// remove deletes machines with one request. When AKS refuses with an unknown error, one of the
// machines may be the cause: remove then requests each half separately, and their halves, so
// that the other machines are deleted.
func (a *byAKS) remove(ctx context.Context, handles []string) []error {
	o := &a.p.opts
	_, err := a.pools.BeginDeleteMachines(ctx, o.AKSMachines.ResourceGroup, o.ClusterName, o.AKSMachines.Pool,
		aks.AgentPoolDeleteMachinesParameter{MachineNames: to.SliceOfPtrs(handles...)}, nil)
	if half := len(handles) / 2; half > 0 && armerr.Classify(err).Kind == armerr.OtherRefusal {
		return append(a.remove(ctx, handles[:half]), a.remove(ctx, handles[half:])...)
	}
	err = armerr.Shareable(err)
	errs := make([]error, len(handles))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// rows lists the machines of the pool. A pool that does not exist has none.
func (a *byAKS) rows(ctx context.Context) ([]json.RawMessage, error) {
	rows, pages, err := a.shelf.Rows(ctx, a.p.clients.arm, a.p.opts.SubscriptionID, a.p.opts.AKSMachines.ResourceGroup)
	if armerr.Classify(err).Kind == armerr.NotFound {
		return nil, nil
	}
	a.pages.Store(int64(pages))
	return rows, err
}

// pageEvery limits reading the list to a third of AKS's limit for all requests: 60 a minute.
const pageEvery = 3 * time.Second

// pace returns the maximum age of the list of machines.
func (a *byAKS) pace() time.Duration {
	return max(paceLong, time.Duration(a.pages.Load())*pageEvery)
}
