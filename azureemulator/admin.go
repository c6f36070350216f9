package azureemulator

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// State is all that can be seen at once of the emulator, as GET
// /_emulator/state shows it.
type State struct {
	VMs        []VMState      `json:"vms"`
	Machines   []MachineState `json:"machines"` // of agent pools
	NICs       []NICState     `json:"nics"`
	Disks      []string       `json:"disks"`
	Usages     []Usage        `json:"usages"` // those in use
	Stockouts  []Stockout     `json:"stockouts"`
	Faults     []Fault        `json:"faults"`
	Ledger     Ledger         `json:"ledger"`
	TimeScale  float64        `json:"timeScale"`
	Throttling bool           `json:"throttling"`
	// Operations counts those still in progress.
	Operations int `json:"operations"`
}

// VMState is a virtual machine in a State.
type VMState struct {
	Name          string            `json:"name"`
	ResourceGroup string            `json:"resourceGroup"`
	Size          string            `json:"size"`
	Zone          string            `json:"zone,omitempty"`
	Priority      string            `json:"priority"`
	Provisioning  string            `json:"provisioningState"`
	Power         string            `json:"powerState,omitempty"`
	Failure       string            `json:"failure,omitempty"`
	PrivateIP     string            `json:"privateIP"`
	Created       time.Time         `json:"created"`
	Preempt       *time.Time        `json:"preempt,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
}

// NICState is a network interface in a State. VM is empty for a free one.
type NICState struct {
	Name string `json:"name"`
	VM   string `json:"vm,omitempty"`
	IP   string `json:"ip"`
}

// State describes everything that exists, ordered by name.
func (s *Server) State() State {
	state := State{Stockouts: s.Stockouts(), Faults: s.Faults(), Ledger: s.Ledger(), Disks: []string{}, VMs: []VMState{}, NICs: []NICState{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	state.TimeScale, state.Throttling = s.timeScale, s.throttles.enforced
	state.Operations = len(s.operations.byID) - len(s.operations.finished)
	for _, k := range slices.Sorted(maps.Keys(s.vms)) {
		state.VMs = append(state.VMs, s.vmState(s.vms[k]))
	}
	state.Machines = s.machineStates()
	for _, k := range slices.Sorted(maps.Keys(s.nics)) {
		n := s.nics[k]
		state.NICs = append(state.NICs, NICState{Name: n.name, VM: n.vm, IP: n.address()})
	}
	for _, k := range slices.Sorted(maps.Keys(s.disks)) {
		state.Disks = append(state.Disks, s.disks[k].name)
	}
	for _, u := range s.quota.usages() {
		if u.Current != 0 {
			state.Usages = append(state.Usages, u)
		}
	}
	return state
}

// Tagged is what a tag says of each virtual machine that has it, by the machine's name.
func (s *Server) Tagged(tag string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := make(map[string]string, len(s.vms))
	for _, v := range s.vms {
		if value, has := v.tags[tag]; has {
			said[v.name] = value
		}
	}
	return said
}

func (s *Server) vmState(v *vm) VMState {
	state := VMState{
		Name: v.name, ResourceGroup: v.group, Size: v.size.Name, Zone: v.spec.zone(), Priority: v.spec.priority(),
		Provisioning: v.state, Power: v.power, PrivateIP: v.address(), Created: v.created, Tags: maps.Clone(v.tags),
	}
	if v.failure != nil {
		state.Failure = v.failure.Code
	}
	if e := v.event(preempt); e != nil {
		state.Preempt = &e.notBefore
	}
	return state
}

func (s *Server) adminState(*request) (reply, error)  { return ok(s.State()) }
func (s *Server) adminLedger(*request) (reply, error) { return ok(s.Ledger()) }

func (s *Server) adminInvariants(*request) (reply, error) {
	if err := s.CheckInvariants(); err != nil {
		return reply{}, refuse(http.StatusInternalServerError, "InvariantViolated", "%v", err)
	}
	return done()
}

func (s *Server) adminListStockouts(*request) (reply, error) { return ok(s.Stockouts()) }

func (s *Server) adminAddStockout(r *request) (reply, error) {
	var o Stockout
	return decodeThen(r, &o, func() error { return s.AddStockout(o) })
}

func (s *Server) adminClearStockouts(r *request) (reply, error) {
	s.ClearStockouts(r.query.Get("size"), r.query.Get("zone"), r.query.Get("priority"))
	return done()
}

func (s *Server) adminListFaults(*request) (reply, error) { return ok(s.Faults()) }

func (s *Server) adminAddFault(r *request) (reply, error) {
	var f Fault
	return decodeThen(r, &f, func() error { return s.AddFault(f) })
}

func (s *Server) adminClearFaults(*request) (reply, error) {
	s.ClearFaults()
	return done()
}

func (s *Server) adminSetQuota(r *request) (reply, error) {
	var q struct {
		Name  string `json:"name"`
		Limit int    `json:"limit"`
	}
	return decodeThen(r, &q, func() error { return s.SetQuota(q.Name, q.Limit) })
}

func (s *Server) adminSetThrottling(r *request) (reply, error) {
	var t struct {
		Enabled bool `json:"enabled"`
	}
	return decodeThen(r, &t, func() error {
		s.SetThrottling(t.Enabled)
		return nil
	})
}

func (s *Server) adminSetTimeScale(r *request) (reply, error) {
	var t struct {
		Scale float64 `json:"scale"`
	}
	return decodeThen(r, &t, func() error { return s.SetTimeScale(t.Scale) })
}

func (s *Server) adminPublishImage(r *request) (reply, error) {
	var i struct {
		Definition string `json:"definition"`
		Version    string `json:"version"`
	}
	return decodeThen(r, &i, func() error { return s.PublishImage(i.Definition, i.Version) })
}

func (s *Server) adminAddSubnet(r *request) (reply, error) {
	var n struct {
		ResourceGroup string `json:"resourceGroup"`
		VNet          string `json:"vnet"`
		Name          string `json:"name"`
		Prefix        string `json:"prefix"`
	}
	return decodeThen(r, &n, func() error {
		if n.ResourceGroup == "" || n.VNet == "" || n.Name == "" {
			return badRequest("InvalidParameter", "A subnet needs resourceGroup, vnet, name and prefix.")
		}
		_, err := s.AddSubnet(n.ResourceGroup, n.VNet, n.Name, n.Prefix)
		return err
	})
}

func (s *Server) adminRevokeTokens(*request) (reply, error) {
	s.RevokeTokens()
	return done()
}

func (s *Server) adminEvict(r *request) (reply, error) {
	var e struct {
		// NoticeSeconds is at TimeScale 1: 0 means the usual 30, -1 none.
		NoticeSeconds float64 `json:"noticeSeconds"`
	}
	if len(r.body) == 0 {
		r.body = []byte("{}")
	}
	return decodeThen(r, &e, func() error {
		return s.Evict(r.params["vm"], time.Duration(e.NoticeSeconds*float64(time.Second)))
	})
}

// decodeThen reads the request into v and acts on it. What the act refuses is
// the caller's mistake.
func decodeThen(r *request, v any, act func() error) (reply, error) {
	if err := r.decode(v); err != nil {
		return reply{}, err
	}
	if err := act(); err != nil {
		return reply{}, badRequest("BadRequest", "%v", err)
	}
	return done()
}

func done() (reply, error) { return ok(map[string]bool{"ok": true}) }
