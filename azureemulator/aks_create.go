// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// aksPace is the polling interval of AKS's operations.
const aksPace = 3 * time.Second

// batchLimit is how many machines one request may make.
const batchLimit = 50

// machineName is what AKS takes for one.
var machineName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,33}[a-z0-9])?$`)

// batchMachine is one entry of the header BatchPutMachine.
type batchMachine struct {
	Name  string            `json:"machineName"`
	Zones []string          `json:"zones"`
	Tags  map[string]string `json:"tags"`
}

// put makes the machine it names, or all those of the header BatchPutMachine from
// the one body.
func (am *aksMachines) put(r *request) (reply, error) {
	var body struct {
		Zones      []string       `json:"zones"`
		Properties map[string]any `json:"properties"`
	}
	if err := r.decode(&body); err != nil {
		return reply{}, err
	}
	spec, err := readMachineSpec(body.Properties)
	if err != nil {
		return reply{}, err
	}
	am.clock.Lock()
	defer am.clock.Unlock()
	p, err := am.pools.machinesPoolOf(r)
	if err != nil {
		return reply{}, err
	}
	if err := am.checkMachineSpec(spec); err != nil {
		return reply{}, err
	}
	if err := am.checkMatch(r, p); err != nil {
		return reply{}, err
	}
	if header := r.http.Header.Get("BatchPutMachine"); header != "" {
		return am.putBatch(r, p, header, body.Properties)
	}
	one := batchMachine{Name: r.params["machine"], Zones: body.Zones, Tags: spec.Tags}
	if m := am.byKey[machineKey(p.name, one.Name)]; m != nil {
		return am.putAgain(m, one, body.Properties)
	}
	if refusal := am.checkMachine(one, spec); refusal != nil {
		return reply{}, flat(badRequest(refusal.Code, "%s", refusal.Message))
	}
	return am.created(am.add(p, one, spec.node, body.Properties))
}

// checkMachineSpec refuses what no machine can be.
func (am *aksMachines) checkMachineSpec(spec machineSpec) error {
	if _, err := am.sizes.offered(spec.Hardware.VMSize); err != nil {
		return flat(badRequest("VMSizeNotSupported", "The VM size of %s is not supported for subscription %s in location '%s'.", spec.Hardware.VMSize, am.sub.id, am.sub.location))
	}
	if v := spec.NodeImageVersion; v != "" {
		if _, known := am.galleries.nodeImage(v); !known {
			return flat(badRequest("InvalidParameter", "The node image version %s is not available.", v))
		}
	}
	return nil
}

// checkMatch holds the request's conditions against the machine in its path.
func (am *aksMachines) checkMatch(r *request, p *agentPool) error {
	m := am.byKey[machineKey(p.name, r.params["machine"])]
	header := r.http.Header
	if header.Get("If-None-Match") == "*" && m != nil || header.Get("If-Match") != "" && (m == nil || header.Get("If-Match") != m.etag) {
		return flat(refuse(http.StatusPreconditionFailed, "PreconditionFailed", "The condition of the request does not hold for machine %s.", r.params["machine"]))
	}
	return nil
}

// checkMachine refuses one machine of perhaps many.
func (am *aksMachines) checkMachine(one batchMachine, spec machineSpec) *ErrorDetail {
	refuse := func(format string, args ...any) *ErrorDetail {
		return &ErrorDetail{Code: "InvalidParameter", Message: fmt.Sprintf(format, args...), Target: one.Name}
	}
	if !machineName.MatchString(one.Name) {
		return refuse("The machine name %q is not valid: it must be 1 to 35 lower-case letters, digits and hyphens.", one.Name)
	}
	if len(one.Zones) > 1 {
		return refuse("The machine %s can be in one zone only.", one.Name)
	}
	size, _ := am.sizes.offered(spec.Hardware.VMSize)
	zones, _ := size.ZonesIn(am.sub.location)
	for _, zone := range one.Zones {
		if !strings.Contains(strings.Join(zones, ","), zone) {
			return refuse("The zone %s is not supported for size %s in location %s.", zone, size.Name, am.sub.location)
		}
	}
	return nil
}

// putBatch makes the machines of a batch. Those that are refused keep no other from
// being made.
func (am *aksMachines) putBatch(r *request, p *agentPool, header string, properties map[string]any) (reply, error) {
	var batch struct {
		Machines []batchMachine `json:"batchMachines"`
	}
	if err := json.Unmarshal([]byte(header), &batch); err != nil {
		return reply{}, invalidContent(err)
	}
	if n := len(batch.Machines); n == 0 || n > batchLimit || !strings.EqualFold(batch.Machines[0].Name, r.params["machine"]) {
		return reply{}, flat(badRequest("InvalidParameter", "A batch has 1 to %d machines, of which the first is the one in the path; this one has %d.", batchLimit, n))
	}
	spec, err := readMachineSpec(properties)
	if err != nil {
		return reply{}, err
	}
	var first *aksMachine
	var refusals []ErrorDetail
	for _, one := range batch.Machines {
		refusal := am.checkMachine(one, spec)
		if am.byKey[machineKey(p.name, one.Name)] != nil {
			refusal = &ErrorDetail{Code: "Conflict", Message: "The machine " + one.Name + " exists already.", Target: one.Name}
		}
		if refusal != nil {
			refusals = append(refusals, *refusal)
			continue
		}
		m := am.add(p, one, spec.node, properties)
		if first == nil {
			first = m
		}
	}
	if len(refusals) > 0 {
		e := badRequest("BatchMachineClientError", "%d of %d machines were refused.", len(refusals), len(batch.Machines))
		e.Details = refusals
		return reply{}, e
	}
	return am.created(first)
}

// putAgain answers a PUT on a machine that exists: only tags may change.
func (am *aksMachines) putAgain(m *aksMachine, one batchMachine, properties map[string]any) (reply, error) {
	if m.leaving {
		return reply{}, flat(conflict("Conflict", "The machine %s is being deleted.", m.name))
	}
	before, now := asked(m.document), asked(properties)
	if !reflect.DeepEqual(before, now) || !reflect.DeepEqual(m.zones, one.Zones) {
		return reply{}, flat(badRequest("PropertyChangeNotAllowed", "Changing properties of machine %s is not allowed.", m.name))
	}
	m.tags, m.etag = one.Tags, am.chance.uuid()
	if m.vm != nil {
		m.vm.tags = m.virtualTags()
	}
	return ok(m.view())
}

// asked is what clients ask for by a machine's properties, but for its tags, which may
// change, and for what only AKS writes, which it passes over.
func asked(properties map[string]any) map[string]any {
	without := func(m map[string]any, keys ...string) map[string]any {
		m = maps.Clone(m)
		for _, key := range keys {
			delete(m, key)
		}
		return m
	}
	rest := without(properties, "tags", "provisioningState", "eTag", "status", "resourceId")
	if kubernetes := object(rest["kubernetes"]); len(kubernetes) > 0 {
		rest["kubernetes"] = without(kubernetes, "nodeName", "currentOrchestratorVersion")
	}
	return rest
}

func (am *aksMachines) created(m *aksMachine) (reply, error) {
	header := http.Header{}
	am.ops.announce(m.at, header)
	return answer(http.StatusCreated, header, m.view())
}

// add accepts a machine. What AKS makes of it shows later.
func (am *aksMachines) add(p *agentPool, one batchMachine, node *NodeProfile, properties map[string]any) *aksMachine {
	m := &aksMachine{
		common: am.sub.newCommon(p.id+"/machines/"+one.Name, one.Name, p.group), pool: p, zones: one.Zones, document: properties, node: node,
		at: am.ops.begin(aksSpace, aksPace),
	}
	m.tags = one.Tags
	am.byKey[machineKey(p.name, one.Name)] = m
	am.log.Info("machine accepted", slog.String("machine", m.name), slog.String("pool", p.name))
	am.clock.later(am.latency, func() { am.build(m) })
	return m
}

// build has Compute make the virtual machine. What Compute refuses is the
// machine's failure: its request was accepted long ago.
func (am *aksMachines) build(m *aksMachine) {
	if m.leaving {
		return
	}
	v, err := am.request(m)
	if err != nil {
		m.failure = asError(err)
		am.ops.finish(m.at, m.failure)
		return
	}
	m.vm, m.vmID = v, v.id
	v.machine = m
}

// request asks Compute for the VM of m.
func (am *aksMachines) request(m *aksMachine) (*vm, error) {
	name, w, err := am.vmRequestFor(m)
	if err != nil {
		return nil, err
	}
	if err := am.faults.takeRefusalOfVM(am.sub.resourceID(am.sub.nodeGroup, "Microsoft.Compute", "virtualMachines", name)); err != nil {
		return nil, err
	}
	return am.compute.create(am.sub.nodeGroup, name, w)
}

// vmSettled ends the operation of the machine behind v, which has just come to be or failed.
func (am *aksMachines) vmSettled(v *vm) {
	if v.machine != nil {
		am.ops.finish(v.machine.at, v.failure)
	}
}

// vmRequestFor is what AKS asks Compute for.
func (am *aksMachines) vmRequestFor(m *aksMachine) (name string, w vmRequest, err error) {
	spec, err := readMachineSpec(m.document)
	if err != nil {
		return "", w, err
	}
	digits := uuidOf("machine", m.id+m.etag)
	name = fmt.Sprintf("aks-%s-%s-%s-vm", m.pool.name, m.name, numeric(digits))
	body, err := json.Marshal(am.vmBody(m, spec, name))
	if err != nil {
		return "", w, fmt.Errorf("describing %s: %w", name, err)
	}
	w, err = readVMRequest(body)
	return name, w, err
}

// numeric makes eight digits of a hexadecimal text.
func numeric(hex string) string {
	digits := 0
	for _, c := range hex {
		digits = (digits*31 + int(c)) % 100_000_000
	}
	return fmt.Sprintf("%08d", digits)
}
