// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"maps"
	"sync"
	"time"

	"github.com/karve-dev/karve/engine/offering"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
)

// policyTTL is how long a policy's refusal is reported when no node is launched meanwhile.
const policyTTL = time.Hour

// NewPolicies returns an empty memory.
func NewPolicies() *Policies { return &Policies{denied: map[string]policyDenial{}} }

// Policies remembers which refusals came from policies of the subscription, by node class. A
// successful launch of the class removes them.
type Policies struct {
	mu     sync.Mutex
	denied map[string]policyDenial
}

// A policyDenial describes a refusal.
type policyDenial struct {
	description string
	at          time.Time
}

func (d *Policies) RecordDenial(class string, choice offering.Ref, r armerr.Failure, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.denied[class] = policyDenial{choice.Type + " in " + choice.Zone + ": " + r.Describe(), now}
}

func (d *Policies) Clear(class string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.denied, class)
}

// Last describes the last refusal by a policy for a node class; empty when there is none.
func (d *Policies) Last(class string, now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.denied[class]
	if known.at.IsZero() || now.Sub(known.at) >= policyTTL {
		return ""
	}
	return known.description
}

// DropExpired drops expired entries.
func (d *Policies) DropExpired(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.denied, func(_ string, known policyDenial) bool { return now.Sub(known.at) >= policyTTL })
}
