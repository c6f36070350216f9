package azureemulator

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// putVM creates a machine, or looks at one that is there.
func (s *Server) putVM(r *request) (reply, error) {
	w, err := readWish(r.body)
	if err != nil {
		return reply{}, err
	}
	if err := s.authoriseShared(r, w); err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.groupOf(r)
	if err != nil {
		return reply{}, err
	}
	v := s.vms[key(g.name, r.params["vm"])]
	if v == nil {
		return s.createVM(g.name, r.params["vm"], w)
	}
	return s.putAgain(v, w)
}

// putAgain answers a PUT on a machine that exists. The same body as before is
// no change: the caller is told how the creation stands, and one that failed is
// tried again.
func (s *Server) putAgain(v *vm, w wish) (reply, error) {
	if v.state == deleting {
		return reply{}, beingDeleted(v)
	}
	if v.state == failed && v.power == "" {
		return s.retryVM(v, w)
	}
	if err := v.change(w, s.chance.uuid()); err != nil {
		return reply{}, err
	}
	return s.created(v, http.StatusOK)
}

// createVM checks the whole request before it changes anything.
func (s *Server) createVM(group, name string, w wish) (reply, error) {
	v, err := s.plan(group, name, w)
	if err != nil {
		return reply{}, err
	}
	if err := s.checkVM(v); err != nil {
		return reply{}, err
	}
	if err := s.checkQuota(claims(v.size, v.spec.isSpot())); err != nil {
		return reply{}, err
	}
	refusal, late := s.shortage(v)
	if refusal != nil {
		s.reserveNICs(v)
		return reply{}, refusal
	}
	if err := s.attachNICs(v); err != nil {
		return reply{}, err
	}
	if s.quirk(nicOrphaned) {
		return reply{}, s.orphanNICs(v)
	}
	s.quota.take(claims(v.size, v.spec.isSpot()))
	s.addOSDisk(v)
	s.vms[key(group, name)] = v
	s.hosts[strings.ToLower(v.spec.Properties.OSProfile.ComputerName)] = v
	s.allocate(v, late)
	s.log.Info("virtual machine accepted", slog.String("vm", name), slog.String("size", v.size.Name),
		slog.String("zone", v.spec.zone()), slog.String("priority", v.spec.priority()))
	return s.created(v, http.StatusCreated)
}

// retryVM allocates a machine whose first allocation failed, in another size if
// the body says so.
func (s *Server) retryVM(v *vm, w wish) (reply, error) {
	size, err := s.sizeNamed(w.spec.Properties.HardwareProfile.VMSize)
	if err != nil {
		return reply{}, err
	}
	before := *v
	v.size = size
	w.spec.Properties.HardwareProfile.VMSize = size.Name
	if err := v.change(w, v.etag); err != nil {
		*v = before
		return reply{}, err
	}
	v.spec.Properties.HardwareProfile.VMSize = size.Name
	s.quota.giveBack(claims(before.size, v.spec.isSpot()))
	late, refusal := s.retryable(v)
	if refusal != nil {
		*v = before
		s.quota.take(claims(v.size, v.spec.isSpot()))
		return reply{}, refusal
	}
	s.quota.take(claims(v.size, v.spec.isSpot()))
	s.allocate(v, late)
	return s.created(v, http.StatusOK)
}

func (s *Server) retryable(v *vm) (late *Error, refusal error) {
	if err := s.checkVM(v); err != nil {
		return nil, err
	}
	if err := s.checkQuota(claims(v.size, v.spec.isSpot())); err != nil {
		return nil, err
	}
	now, late := s.shortage(v)
	if now != nil {
		return nil, now
	}
	return late, nil
}

// allocate puts the end of a creation on the agenda. failure is what it will
// fail of, which shows sooner than success.
func (s *Server) allocate(v *vm, failure *Error) {
	v.life++
	v.state, v.failure = creating, nil
	v.at = s.begin("Microsoft.Compute", computePace)
	life, wait := v.life, s.chance.draw(s.options.Latency.Create)
	if failure != nil {
		wait /= 3
	}
	if failure == nil && s.quirk(stuckCreating) {
		return
	}
	s.afterScaled(wait, func() {
		if v.life == life {
			s.endCreation(v, failure)
		}
	})
}

func (s *Server) endCreation(v *vm, failure *Error) {
	defer s.settleMachine(v)
	if failure == nil && s.quirk(stuckUpdating) {
		v.state, v.power = updating, starting // and its operation goes on
		s.bootLater(v)
		return
	}
	op := v.at
	s.operations.finish(op, failure)
	v.at = nil
	if failure != nil {
		v.state, v.failure = failed, failure
		s.log.Info("allocation failed", slog.String("vm", v.name), slog.String("size", v.size.Name), slog.String("code", failure.Code))
		return
	}
	if s.quirk(lateSuccess) {
		s.succeedLate(v, op)
		return
	}
	v.state, v.power = succeeded, starting
	s.bootLater(v)
	if s.quirk(lateFailure) {
		s.failLate(v, op)
	}
}

// failLate has a machine fail whose creation was reported as done: it has no power any more,
// and its operation tells another story than before.
func (s *Server) failLate(v *vm, op *operation) {
	life := v.life
	s.afterScaled(turnsOut, func() {
		if v.life != life {
			return
		}
		v.endGuest(ErrDeallocated)
		v.state, v.power = failed, ""
		v.failure = refuse(http.StatusInternalServerError, "InternalExecutionError", "An internal execution error occurred. Please retry later.")
		if op != nil {
			op.status, op.failure = failed, v.failure
		}
		s.log.Info("virtual machine failed after it was made", slog.String("vm", v.name))
	})
}

// succeedLate has a machine come up whose creation was reported as failed.
func (s *Server) succeedLate(v *vm, op *operation) {
	v.state, v.failure = failed, refuse(http.StatusInternalServerError, "InternalExecutionError", "An internal execution error occurred. Please retry later.")
	if op != nil {
		op.status, op.failure = failed, v.failure
	}
	life := v.life
	s.afterScaled(late, func() {
		if v.life == life {
			v.state, v.power, v.failure = succeeded, starting, nil
			s.bootLater(v)
		}
	})
}

// bootLater boots the machine after its delay, unless something ends its life.
func (s *Server) bootLater(v *vm) {
	life := v.life
	s.later(s.options.Latency.Boot, func() {
		if v.life == life {
			s.boot(v)
		}
	})
}

// plan reads what the request asks for into a machine that is not there yet.
func (s *Server) plan(group, name string, w wish) (*vm, error) {
	if err := s.checkLocation(w.spec.Location); err != nil {
		return nil, err
	}
	size, err := s.sizeNamed(w.spec.Properties.HardwareProfile.VMSize)
	if err != nil {
		return nil, err
	}
	w.spec.Properties.HardwareProfile.VMSize = size.Name
	setString(&w.spec.Properties.OSProfile.ComputerName, name)
	osDisk := &w.spec.Properties.StorageProfile.OSDisk
	setString(&osDisk.Name, name+"_OsDisk_1_"+s.chance.hex(16)+s.chance.hex(16))
	id := s.resourceID(group, "Microsoft.Compute", "virtualMachines", name)
	v := &vm{common: s.newCommon(id, name, group), vmID: s.chance.uuid(), wish: w, size: size, extensions: map[string]*extension{}}
	v.tags = w.spec.Tags
	return v, nil
}

// sizeNamed finds a size sold in the region.
func (s *Server) sizeNamed(name string) (catalog.Size, error) {
	size, known := s.sizes[strings.ToLower(name)]
	if known && !sizesLike(s.retired)(size.Name) {
		if _, offered := size.ZonesIn(s.options.Location); offered {
			return size, nil
		}
	}
	return size, invalidParameter("vmSize", "The requested VM size %s is not available in the current region. The sizes available in the current region are: %s. Find out more on the available VM sizes in each region at https://aka.ms/azure-regions.", name, strings.Join(s.sizesSold(5), ",")+",…")
}

// addOSDisk makes the machine's managed disk.
func (s *Server) addOSDisk(v *vm) {
	if v.spec.ephemeral() {
		return
	}
	spec := v.spec.Properties.StorageProfile.OSDisk
	id := s.resourceID(v.group, "Microsoft.Compute", "disks", spec.Name)
	d := &disk{common: s.newCommon(id, spec.Name, v.group), sizeGB: max(spec.DiskSizeGB, 30), sku: spec.ManagedDisk.StorageAccountType, zone: v.spec.zone(), vm: v.id, state: succeeded}
	if d.sku == "" {
		d.sku = "Standard_LRS"
		if v.size.PremiumIO {
			d.sku = "Premium_LRS"
		}
	}
	d.tags = v.tags
	v.osDisk = d
	s.disks[key(v.group, spec.Name)] = d
}
