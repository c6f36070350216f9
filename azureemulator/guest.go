// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/karve-dev/karve/azureemulator/catalog"
)

// Why a VM went away. The context a Guest runs under ends with one of
// these as its cause (context.Cause), or with the server's own shutdown.
var (
	// ErrDeleted: a client deleted the VM.
	ErrDeleted = errors.New("VM deleted")
	// ErrEvicted: Azure took a spot VM back.
	ErrEvicted = errors.New("spot VM evicted")
	// ErrDeallocated: the VM was stopped and left its host. The resource
	// remains, keeps its place in the quota, and may be started again.
	ErrDeallocated = errors.New("VM deallocated")
	// ErrRestarted: the VM starts anew, on its host or on another.
	ErrRestarted = errors.New("VM restarted")
)

// guests run the operating systems of VMs that have booted.
type guests struct {
	guest   Guest // nil: VMs boot and do nothing
	alive   context.Context
	running sync.WaitGroup
	sub     *subscription
}

// start runs the guest of v. The function that it returns ends it; it is nil without a guest.
func (gs *guests) start(v *vm) context.CancelCauseFunc {
	if gs.guest == nil {
		return nil
	}
	ctx, stop := context.WithCancelCause(gs.alive)
	machine := gs.machine(v)
	gs.running.Go(func() {
		defer stop(nil)
		gs.guest.Run(ctx, machine)
	})
	return stop
}

// VM is what a VM knows about itself when its boot ends. It
// is a copy: a guest may keep it, and changing it changes nothing.
type VM struct {
	// ID is the canonical ARM id.
	ID             string
	Name           string
	ComputerName   string
	SubscriptionID string
	ResourceGroup  string
	Location       string
	// Zone is "1", "2" or "3", or empty for a VM placed regionally.
	Zone string
	// PrivateIP is the primary address of the primary network interface.
	PrivateIP string
	// Priority is "Regular" or "Spot".
	Priority string
	// ImageID is the image reference the VM was created from.
	ImageID string
	// CustomData is the bootstrap payload, decoded from the base64 of the request.
	CustomData []byte
	// Node is what AKS makes of a machine that it asked for itself, which has no
	// CustomData then; nil for all others.
	Node *NodeProfile
	Size catalog.Size
	Tags map[string]string
}

// Guest runs a VM's operating system. Run is called in its own goroutine
// when a boot ends (again after a deallocated VM is started) and should
// return soon after ctx ends.
type Guest interface {
	Run(ctx context.Context, m VM)
}

// Preempter is a Guest that listens for scheduled events: Preempt is called when
// Azure announces that it will take the named VM back. It must not block.
type Preempter interface {
	Preempt(vm string, p Preemption)
}

// Preemption is the notice of an eviction.
type Preemption struct {
	// EventID is the event's, in the form of a UUID.
	EventID string
	// NotBefore is the earliest time of the eviction.
	NotBefore time.Time
}

// machine is v as its guest sees it.
func (gs *guests) machine(v *vm) VM {
	m := VM{
		ID: v.id, Name: v.name, ComputerName: v.spec.Properties.OSProfile.ComputerName,
		SubscriptionID: gs.sub.id, ResourceGroup: v.group, Location: v.location,
		Zone: v.spec.zone(), Priority: v.spec.priority(),
		ImageID:    v.spec.Properties.StorageProfile.ImageReference.name(),
		CustomData: v.customData, Size: v.size, Tags: maps.Clone(v.tags), PrivateIP: v.address(),
	}
	if v.machine != nil {
		m.Node = gs.nodeOf(v.machine)
	}
	return m
}

// nodeOf says what node m is to be. Callers hold the lock.
func (gs *guests) nodeOf(m *aksMachine) *NodeProfile {
	p := *m.node
	p.Pool, p.Cluster = m.pool.name, gs.sub.nodeGroup
	return &p
}

func (gs *guests) preempt(v *vm, e *scheduledEvent) {
	listener, listens := gs.guest.(Preempter)
	if !listens || v.stopGuest == nil || e.kind != preempt {
		return
	}
	name, notice := v.name, Preemption{EventID: e.id, NotBefore: e.notBefore}
	gs.running.Go(func() { listener.Preempt(name, notice) })
}

func (gs *guests) wait() error {
	done := make(chan struct{})
	go func() {
		gs.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(guestPatience):
		return fmt.Errorf("closing the Azure emulator: guests still run %s after their context ended", guestPatience)
	}
}

// guestPatience is how long Close waits for guests to return.
const guestPatience = 10 * time.Second
