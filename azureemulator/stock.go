// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Stockout says what Azure has run out of. Empty fields match everything.
type Stockout struct {
	// Size is a size's name, or a pattern with * and ?: "Standard_D*_v5".
	Size string `json:"size,omitempty"`
	// Zone is "1", "2", "3", or "regional" for VMs without a zone.
	Zone string `json:"zone,omitempty"`
	// Priority is "Spot" or "Regular".
	Priority string `json:"priority,omitempty"`
	// Mode is how creating a VM fails. SkuNotAvailable refuses the request at once;
	// SkuNotAvailableAsync, ZonalAllocationFailed, AllocationFailed,
	// OverconstrainedZonalAllocationRequest and OverconstrainedAllocationRequest
	// accept it and fail its operation. Empty: ZonalAllocationFailed for a
	// VM with a zone and AllocationFailed for one without.
	Mode string `json:"mode,omitempty"`
	// Left is how many matching VMs can still be created before it is so.
	Left int `json:"left,omitempty"`
	// Times is how many creations fail before there is stock again. Zero: until it is cleared.
	Times int `json:"times,omitempty"`
	// EverySeconds above zero, at TimeScale 1, has it come and go: out of stock for so long from
	// when it was added, in stock for as long, and so on.
	EverySeconds float64 `json:"everySeconds,omitempty"`
	// ForSeconds above zero, at TimeScale 1, is after how long there is stock again for good.
	ForSeconds float64 `json:"forSeconds,omitempty"`
	// Seed above zero passes about two of three creations over, as NamedFault's does.
	Seed uint64 `json:"seed,omitempty"`
	// Since and Draws are the emulator's own: when it was added, and of how many creations its
	// seed has decided.
	Since time.Time `json:"since,omitzero"`
	Draws int       `json:"draws,omitempty"`

	fault string // its name, if it is of the catalogue
}

// The modes of a Stockout.
const (
	SkuNotAvailable                       = "SkuNotAvailable"
	SkuNotAvailableAsync                  = "SkuNotAvailableAsync"
	ZonalAllocationFailed                 = "ZonalAllocationFailed"
	AllocationFailed                      = "AllocationFailed"
	OverconstrainedZonalAllocationRequest = "OverconstrainedZonalAllocationRequest"
	OverconstrainedAllocationRequest      = "OverconstrainedAllocationRequest"
)

func (o Stockout) valid() error {
	switch o.Mode {
	case "", SkuNotAvailable, SkuNotAvailableAsync, ZonalAllocationFailed, AllocationFailed,
		OverconstrainedZonalAllocationRequest, OverconstrainedAllocationRequest:
	default:
		return fmt.Errorf("stock-out mode %q is not one of those documented", o.Mode)
	}
	if _, err := path.Match(o.Size, ""); err != nil {
		return fmt.Errorf("stock-out size %q is not a pattern: %w", o.Size, err)
	}
	if d := min(o.EverySeconds, o.ForSeconds); d < 0 {
		return fmt.Errorf("stock-out for %v seconds: it must be zero or more", d)
	}
	if o.Left < 0 {
		return fmt.Errorf("stock-out with %d VMs left: it must be zero or more", o.Left)
	}
	return nil
}

func (o Stockout) matches(v *vm) bool {
	return (o.Size == "" || matchesSize(o.Size, v.size.Name)) &&
		(o.Priority == "" || strings.EqualFold(o.Priority, v.spec.priority())) &&
		(o.Zone == "" || o.Zone == v.spec.zone() || o.Zone == "regional" && v.spec.zone() == "")
}

func matchesSize(pattern, size string) bool {
	matched, err := path.Match(strings.ToLower(pattern), strings.ToLower(size))
	return err == nil && matched
}

// stock knows what Azure has run out of, the deciding stock-outs first.
type stock struct {
	stockouts []*Stockout
	struck    *strikes
	sub       *subscription
	clock     *clock
}

// add makes something run out. The stock-out added last decides.
func (s *stock) add(o Stockout) error {
	if err := o.valid(); err != nil {
		return err
	}
	s.clock.Lock()
	defer s.clock.Unlock()
	o.Since, o.Draws = time.Now(), 0
	s.stockouts = append([]*Stockout{&o}, s.stockouts...)
	return nil
}

// clear ends those whose size, zone and priority are the ones given;
// an empty string stands for any.
func (s *stock) clear(size, zone, priority string) {
	s.clock.Lock()
	defer s.clock.Unlock()
	var kept []*Stockout
	for _, o := range s.stockouts {
		if !is(size, o.Size) || !is(zone, o.Zone) || !is(priority, o.Priority) {
			kept = append(kept, o)
		}
	}
	s.stockouts = kept
}

func is(wanted, got string) bool { return wanted == "" || strings.EqualFold(wanted, got) }

// list are those in force, the deciding ones first.
func (s *stock) list() []Stockout {
	s.clock.Lock()
	defer s.clock.Unlock()
	s.dropRecovered()
	list := make([]Stockout, 0, len(s.stockouts))
	for _, o := range s.stockouts {
		list = append(list, *o)
	}
	return list
}

// takeStock returns why v cannot be created now: refused at once, or late by its
// operation. Both are nil when it can; then a limited stock has one less.
// Callers hold the lock.
func (s *stock) takeStock(v *vm) (now, late *Error) {
	s.dropRecovered()
	for _, o := range s.stockouts {
		if !o.matches(v) || s.drawInStock(o) {
			continue
		}
		if o.Left > 0 {
			o.Left--
			return nil, nil
		}
		s.restock(o)
		if o.fault != "" {
			s.struck.note(o.fault)
		}
		if o.Mode == SkuNotAvailable {
			return skuNotAvailable(v.size.Name, s.sub.location), nil
		}
		return nil, allocationFailure(o.Mode, v, s.sub.location)
	}
	return nil, nil
}

// dropRecovered ends the stock-outs whose time is over. Callers hold the lock.
func (s *stock) dropRecovered() {
	s.stockouts = slices.DeleteFunc(slices.Clone(s.stockouts), func(o *Stockout) bool {
		lasts := s.clock.scaled(time.Duration(o.ForSeconds * float64(time.Second)))
		return o.ForSeconds > 0 && time.Since(o.Since) >= lasts
	})
}

// drawInStock reports whether a stock-out that comes and goes is gone, or passes a creation over.
func (s *stock) drawInStock(o *Stockout) bool {
	if every := s.clock.scaled(time.Duration(o.EverySeconds * float64(time.Second))); every > 0 && time.Since(o.Since)/every%2 == 1 {
		return true
	}
	l := luck{o.Seed, o.Draws}
	defer func() { o.Draws = l.draws }()
	return l.passes()
}

// restock ends a stock-out that has failed creations as often as it shall.
func (s *stock) restock(o *Stockout) {
	if o.Times == 0 {
		return
	}
	if o.Times--; o.Times == 0 {
		s.stockouts = slices.DeleteFunc(slices.Clone(s.stockouts), func(other *Stockout) bool { return other == o })
	}
}

func allocationFailure(mode string, v *vm, location string) *Error {
	if mode == "" && v.spec.zone() != "" {
		mode = ZonalAllocationFailed
	}
	switch mode {
	case SkuNotAvailableAsync:
		return skuNotAvailable(v.size.Name, location)
	case ZonalAllocationFailed:
		return conflict(mode, "Allocation failed. We do not have sufficient capacity for the requested VM size %s in zone %s. Read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance", v.size.Name, v.spec.zone())
	case OverconstrainedZonalAllocationRequest, OverconstrainedAllocationRequest:
		return conflict(mode, "Allocation failed. VM(s) with the following constraints cannot be allocated, because the condition is too restrictive. Please remove some constraints and try again. Constraints applied are:%s", constraints(v))
	default:
		return conflict(AllocationFailed, "Allocation failed. If you are trying to add a new VM to a Virtual Machine Scale Set with a single placement group or update/resize an existing VM, please note that such allocation is scoped to a single cluster, and it is possible that the cluster is out of capacity. Please read more about improving likelihood of allocation success at http://aka.ms/allocation-guidance.")
	}
}

func constraints(v *vm) string {
	list := ""
	add := func(applies bool, name string) {
		if applies {
			list += "\n  - " + name
		}
	}
	add(v.spec.zone() != "", "Availability Zone")
	add(v.spec.ephemeral(), "Differencing (Ephemeral) Disks")
	add(v.spec.isSpot(), "Low Priority VMs")
	add(true, "Networking Constraints (such as Accelerated Networking or IPv6)")
	add(true, "VM Size")
	return list
}
