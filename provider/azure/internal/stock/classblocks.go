// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"fmt"
	"time"

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/sku"
)

const (
	// suspectAfterSizes is the number of sizes after which an unknown refusal is attributed to the
	// node class. After each pause up to twice as many more are tried, up to maxSizeStep: if the
	// class is wrong a request costs little, and if the sizes are the cause an available one is
	// found in the end.
	suspectAfterSizes = 3
	maxSizeStep       = 24
	// RefusedTTL is how long the node class then pauses. Its sizes are blocked for longer, so
	// that others are tried next, in case the sizes are the cause after all.
	RefusedTTL      = 3 * time.Minute
	refusedSizesTTL = 10 * time.Minute
)

// ClassPause returns the block of the whole node class, if any.
func (m *UnavailableOfferings) ClassPause(class string) (block, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, paused := m.activeBlocks()[blockKey{class: class}]
	return b, paused
}

// PauseClass pauses a whole node class.
func (m *UnavailableOfferings) PauseClass(class, reason string, r armerr.Failure, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.now().Add(ttl)
	m.put(blockKey{class: class}, block{until: until, Reason: reason, Code: r.Code, Description: describeBlock(r, until)})
	m.blockSizes(class, r.Code)
	m.version++
}

// blockSizes blocks the sizes that were refused with one code for longer, in all zones. Callers
// hold the lock.
func (m *UnavailableOfferings) blockSizes(class, code string) {
	sizes := map[blockKey]block{}
	for key, b := range m.blocks {
		if key.class == class && key.size != "" && b.Code == code {
			b.until, key.zone = m.now().Add(refusedSizesTTL), ""
			sizes[key] = b
		}
	}
	for key, b := range sizes {
		m.put(key, b)
	}
}

// A classSuspicion is that a node class is misconfigured, because several of its sizes were
// refused with one code.
type classSuspicion struct {
	code string
	// pauseAt is the number of refused sizes at which the node class pauses (again), and step how
	// many more it takes after that.
	pauseAt, step int
}

// SuspectClass records that a refusal with this code may be the class's fault, and reports whether
// the class must pause: so many sizes were refused with the code, and none was launched meanwhile.
// It returns the number of sizes.
func (m *UnavailableOfferings) SuspectClass(class, code string) (sizes int, pause bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes = m.sizesRefused(class, code)
	s, known := m.suspicions[class]
	if !known || s.code != code || sizes <= 1 { // earlier refusals have ended
		s = classSuspicion{code: code, pauseAt: suspectAfterSizes, step: 2 * suspectAfterSizes}
	}
	switch {
	case m.launchedRecently(class):
		s.pauseAt = sizes + s.step
	case sizes >= s.pauseAt:
		s.pauseAt, s.step, pause = sizes+s.step, min(2*s.step, maxSizeStep), true
	case s.pauseAt > suspectAfterSizes:
		// It has paused before: refusals of other sizes are better evidence than of the same size
		// in another zone.
		m.blockSizes(class, code)
	}
	m.suspicions[class] = s
	return sizes, pause
}

// sizesRefused counts the sizes that are blocked because of a code. Callers hold the lock.
func (m *UnavailableOfferings) sizesRefused(class, code string) int {
	sizes := map[string]bool{}
	for key, b := range m.activeBlocks() {
		if key.class == class && key.size != "" && b.Code == code {
			sizes[key.size] = true
		}
	}
	return len(sizes)
}

// LaunchedRecently reports whether a node of the class was launched recently.
func (m *UnavailableOfferings) LaunchedRecently(class string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launchedRecently(class)
}

func (m *UnavailableOfferings) launchedRecently(class string) bool {
	return m.now().Sub(m.launched[class]) < RefusedTTL
}

// RecordLaunch records that nodes of a class can be launched.
func (m *UnavailableOfferings) RecordLaunch(class string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.launched[class] = m.now()
	if s, suspect := m.suspicions[class]; suspect {
		s.pauseAt = m.sizesRefused(class, s.code) + s.step // the sizes were the cause, not the class
		m.suspicions[class] = s
	}
}

const (
	// minPreparationErrors is how many launches of a node class must fail with the same error,
	// over at least minPreparationErrorTime, for the class to pause: a single failure is cured by
	// a retry.
	minPreparationErrors    = 3
	minPreparationErrorTime = 10 * time.Second
	// preparationErrorTTL is how long after the last such launch an error is forgotten.
	preparationErrorTTL = 10 * time.Minute
)

// A preparationError is an error of launches of a node class before a virtual machine was
// requested.
type preparationError struct {
	description string
	first, last time.Time
	launches    int
}

// RecordPreparationError records the error of a launch of a node class, and reports whether it
// occurs repeatedly, and no node of the class was launched meanwhile.
func (m *UnavailableOfferings) RecordPreparationError(class, description string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	h := m.preparationErrors[class]
	if h.description != description || now.Sub(h.last) >= preparationErrorTTL || m.launchedRecently(class) {
		h = preparationError{description: description, first: now}
	}
	h.last, h.launches = now, h.launches+1
	m.preparationErrors[class] = h
	return h.launches >= minPreparationErrors && now.Sub(h.first) >= minPreparationErrorTime
}

// ResourceNotRegistered is the code for nodes that lack the resource they were launched for.
const ResourceNotRegistered = "ResourceNotRegistered"

// GPUsMissing reports whether nodes of three sizes of a node class, with GPUs of at least two
// models, lacked them within the last hour.
func (m *UnavailableOfferings) GPUsMissing(class string, known map[string]*sku.SKU) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes, models := map[string]bool{}, map[string]bool{}
	for key, b := range m.activeBlocks() {
		if s := known[key.size]; key.class == class && b.Code == ResourceNotRegistered && s != nil && s.GPUs > 0 {
			sizes[key.size], models[fmt.Sprint(s.GPU)] = true, true
		}
	}
	return len(sizes) >= suspectAfterSizes && len(models) > 1
}
