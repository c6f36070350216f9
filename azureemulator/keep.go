package azureemulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// What an emulator keeps for one that comes after it: all resources and operations, limits,
// and what keep_more.go has. What it was told by its options it is told anew: its pace, and
// whether requests are limited.

// stateFile is where it is, in Options.Dir.
const stateFile = "state.json"

// keptEvery is how often it is written, whatever the time scale; and when the server closes.
const keptEvery = 5 * time.Second

// kept is the file. Work under way is kept as the state of what it is about.
type kept struct {
	// Runs is how many emulators have written it: what is random differs between them.
	Runs       uint64
	Groups     []string
	Subnets    []keptSubnet
	VMs        []keptVM
	NICs       []keptNIC
	Disks      []keptDisk
	Pools      []keptPool
	Machines   []keptMachine
	Operations []keptOperation
	Limits     map[string]int
	Stockouts  []*Stockout

	Tokens         keptTokens
	Faults         []keptFault
	Quirks         map[string]keptQuirk
	Retired        []string
	Buckets        map[string]keptBucket
	Images         []keptImage
	SecurityGroups []keptCommon
	EncryptionSets []keptCommon
	LoadBalancers  []keptBalancer
}

type keptCommon struct {
	ID, Name, Group, Location string
	Tags                      map[string]string
	ETag                      string
	Created                   time.Time
}

type keptSubnet struct {
	Group, Network, Name string
	Prefix, Six          netip.Prefix
	Service              string
	Closed               bool
}

type keptVM struct {
	keptCommon
	VMID       string
	Spec       vmSpec
	Document   map[string]any
	CustomData []byte
	State      string
	Power      string
	NICs       []keptAttachment
	Disk       string // key
	Extensions []keptExtension
	Failure    *Error
	Operation  string
	Stuck      bool
	Hosted     bool
	Machine    string // key
	Events     []keptEvent
	// Incarnation counts the changes of what was announced.
	Incarnation int
}

type keptAttachment struct {
	NIC              string // key
	Primary, Cascade bool
}

type keptExtension struct {
	keptCommon
	Properties map[string]any
	State      string
}

type keptNIC struct {
	keptCommon
	GUID, MAC   string
	Accelerated bool
	NSG, State  string
	Configs     []keptAddress
	VM          string
	ReservedFor string
	ReservedTo  time.Time
}

type keptAddress struct {
	Name, Subnet string
	Address      netip.Addr
	Primary      bool
	Pools        []string
}

type keptDisk struct {
	keptCommon
	SizeGB               int
	SKU, Zone, VM, State string
}

type keptPool struct {
	Name, Mode string
	Document   map[string]any
}

type keptMachine struct {
	keptCommon
	Pool          string
	Zones         []string
	Document      map[string]any
	VMID          string
	Failure       *Error
	Lost, Leaving bool
	Drift         string
	Operation     string
}

type keptOperation struct {
	ID, Namespace, Status string
	Started, Ended        time.Time
	Failure               *Error
	Pace                  time.Duration
}

func (c *common) keep() keptCommon {
	return keptCommon{c.id, c.name, c.group, c.location, c.tags, c.etag, c.created}
}

func (c keptCommon) common() common {
	return common{id: c.ID, name: c.Name, group: c.Group, location: c.Location, tags: c.Tags, etag: c.ETag, created: c.Created}
}

// goOnFromKept takes up what an earlier emulator left, and begins to keep what there is.
func (s *Server) goOnFromKept() error {
	if !s.options.Keep {
		return nil
	}
	k, err := s.load()
	if err == nil && k != nil {
		err = s.resume(k)
	}
	if err == nil && k != nil {
		err = s.resumeFaults(k.Faults)
	}
	if err != nil {
		return err
	}
	s.keepSaving()
	return nil
}

// saveAtLast writes the state once nothing changes it any more.
func (s *Server) saveAtLast() (err error) {
	if s.options.Keep {
		s.saved.Do(func() { err = s.save() })
	}
	return err
}

// keepSaving writes the state now and then. What fails is told, and tried again.
func (s *Server) keepSaving() {
	s.agenda.after(keptEvery, func() {
		if err := s.save(); err != nil {
			s.log.Error("the state is not kept", slog.Any("error", err))
		}
		s.keepSaving()
	})
}

// save writes the state to its file, whole or not at all.
func (s *Server) save() error {
	s.mu.Lock()
	raw, err := json.Marshal(s.keep())
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	path := filepath.Join(s.options.Dir, stateFile)
	if err := errors.Join(os.MkdirAll(s.options.Dir, 0o755), os.WriteFile(path+".new", raw, 0o600)); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}

// load reads the state that an earlier emulator left; nil when there is none.
func (s *Server) load() (*kept, error) {
	raw, err := os.ReadFile(filepath.Join(s.options.Dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	k := &kept{}
	if err == nil {
		err = json.Unmarshal(raw, k)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state that is kept in %s: %w", s.options.Dir, err)
	}
	return k, nil
}

// keep describes all that there is, in order. Callers hold mu.
func (s *Server) keep() kept {
	k := kept{Runs: s.runs, Limits: s.quota.limits, Stockouts: s.stockouts}
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		k.Groups = append(k.Groups, s.groups[name].name)
	}
	inOrder(s.vnets, func(v *vnet) {
		inOrder(v.subnets, func(n *subnet) {
			k.Subnets = append(k.Subnets, keptSubnet{v.group, v.name, n.name, n.prefix, n.six, n.service, n.closed})
		})
	})
	inOrder(s.vms, func(v *vm) { k.VMs = append(k.VMs, v.keep()) })
	inOrder(s.nics, func(n *nic) { k.NICs = append(k.NICs, n.keep()) })
	inOrder(s.disks, func(d *disk) {
		k.Disks = append(k.Disks, keptDisk{d.common.keep(), d.sizeGB, d.sku, d.zone, d.vm, d.state})
	})
	inOrder(s.pools, func(p *agentPool) { k.Pools = append(k.Pools, keptPool{p.name, p.mode, p.document}) })
	inOrder(s.machines, func(m *aksMachine) {
		k.Machines = append(k.Machines, keptMachine{m.common.keep(), m.pool.name, m.zones, m.document, m.vmID, m.failure, m.lost, m.leaving, m.drift, m.at.name()})
	})
	inOrder(s.operations.byID, func(op *operation) {
		k.Operations = append(k.Operations, keptOperation{op.id, op.namespace, op.status, op.started, op.ended, op.failure, op.pace})
	})
	s.keepMore(&k)
	return k
}

func inOrder[T any](m map[string]T, visit func(T)) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		visit(m[k])
	}
}

// name is the operation's id; empty for none.
func (op *operation) name() string {
	if op == nil {
		return ""
	}
	return op.id
}

func (v *vm) keep() keptVM {
	k := keptVM{
		keptCommon: v.common.keep(), VMID: v.vmID, Spec: v.spec, Document: v.document, CustomData: v.customData, State: v.state, Power: v.power,
		Failure: v.failure, Operation: v.at.name(), Stuck: v.stuck, Hosted: v.hosted,
		Events: v.keepEvents(), Incarnation: v.incarnation,
	}
	for _, a := range v.nics {
		k.NICs = append(k.NICs, keptAttachment{key(a.nic.group, a.nic.name), a.primary, a.cascade})
	}
	if v.osDisk != nil {
		k.Disk = key(v.osDisk.group, v.osDisk.name)
	}
	if v.machine != nil {
		k.Machine = machineKey(v.machine.pool.name, v.machine.name)
	}
	inOrder(v.extensions, func(e *extension) {
		k.Extensions = append(k.Extensions, keptExtension{e.common.keep(), e.properties, e.state})
	})
	return k
}

func (n *nic) keep() keptNIC {
	k := keptNIC{
		keptCommon: n.common.keep(), GUID: n.guid, MAC: n.mac, Accelerated: n.accelerated, NSG: n.nsg, State: n.state,
		VM: n.vm, ReservedFor: n.reservedFor, ReservedTo: n.reservedTo,
	}
	for _, c := range n.configs {
		k.Configs = append(k.Configs, keptAddress{c.name, c.subnet.id, c.address, c.primary, c.pools})
	}
	return k
}
