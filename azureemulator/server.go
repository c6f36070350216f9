// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// Server is a running emulator. Its methods, and those of its parts, are safe for concurrent use.
type Server struct {
	// Network, Capacity and VMs are what tests see and change of the emulated Azure.
	Network  *Network
	Capacity *Capacity
	VMs      *VMs

	options   Options
	clock     *clock
	sub       *subscription
	identity  *identity
	galleries *galleries
	disks     *disks
	injector  *injector
	guests    *guests
	inventory *inventory
	ledger    *ledger
	front     *front
	listener  *listener // nil without one
	ends      context.CancelCauseFunc
	acting    sync.WaitGroup // the clock's agenda
}

// ErrClosed is the cause that guests' contexts end with when the server closes.
var ErrClosed = errors.New("emulator closed")

// Start brings an emulator up. It runs until ctx ends or Close is called.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := newServer(ctx, o)
	if err == nil {
		s.listener, err = listen(ctx, s.options, s.sub, s.identity.assertion, s, s.injector.faults.line)
		if err != nil {
			s.ends(ErrClosed)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("starting the Azure emulator: %w", err)
	}
	s.closeWith(ctx)
	return s, nil
}

func (s *Server) closeWith(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		if err := s.Close(); err != nil {
			s.options.Log.Error("closing with the context", "error", err)
		}
	})
}

// Close stops the emulator: guests end with ErrClosed, nothing on the agenda happens any more,
// and files it wrote to a folder of its own are removed. Calling it again does nothing.
func (s *Server) Close() error {
	s.ends(ErrClosed)
	var errs []error
	if s.listener != nil {
		errs = append(errs, s.listener.close())
	}
	s.acting.Wait()
	errs = append(errs, s.guests.wait())
	if s.listener != nil {
		errs = append(errs, s.listener.files.remove())
	}
	return errors.Join(errs...)
}

// ServeHTTP answers one request: authorise, throttle, inject faults, handle.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.front.ServeHTTP(w, r) }

// State describes everything that exists, ordered by name.
func (s *Server) State() State { return s.inventory.state() }

// Ledger is the count of requests so far.
func (s *Server) Ledger() Ledger { return s.ledger.now() }

// CheckInvariants returns every contradiction in the emulator's own records, or nil: quota in use
// is the sum over VMs, interfaces and disks point at VMs that point back, and no address is used
// twice. It holds at every moment, whatever clients do.
func (s *Server) CheckInvariants() error { return s.inventory.check() }

// SetTimeScale changes the pace of what begins from now on.
func (s *Server) SetTimeScale(scale float64) error { return s.clock.setScale(scale) }

// AddFault has the next matching requests fail. Faults added first match first.
func (s *Server) AddFault(f Fault) error { return s.injector.faults.add(f) }

// Faults are those still at work, with Times and Skip as they stand.
func (s *Server) Faults() []Fault { return s.injector.faults.list() }

// Inject lets a fault of the catalogue strike.
func (s *Server) Inject(n NamedFault) error { return s.injector.inject(n) }

// Struck is how often each fault of the catalogue has struck so far, by its name. One that was
// injected and met nothing has not.
func (s *Server) Struck() map[string]int { return s.injector.struck.counts() }

// ClearFaults ends every fault of requests, and what VMs do that they should not. What has struck
// already stays. Sizes that were retired are offered again.
func (s *Server) ClearFaults() { s.injector.clear() }

// PublishImage adds a version to every definition of a gallery whose name matches pattern (* and ?
// as in a Stockout; empty matches all), published now.
func (s *Server) PublishImage(pattern, version string) error {
	return s.galleries.publish(pattern, version)
}

// RemoveImage takes a version away from all definitions.
func (s *Server) RemoveImage(version string) { s.galleries.remove(version) }

// RevokeTokens makes every bearer token issued so far useless. Clients see a claims challenge.
func (s *Server) RevokeTokens() { s.identity.revoke() }

// ExpireTokens makes every bearer token issued so far too old, whatever end it was issued with, as
// when the clocks of the issuer and of Resource Manager differ.
func (s *Server) ExpireTokens() { s.identity.expire() }

// AddDiskEncryptionSet makes a set in the node resource group and returns its ID.
func (s *Server) AddDiskEncryptionSet(name string) string { return s.disks.addEncryptionSet(name) }
