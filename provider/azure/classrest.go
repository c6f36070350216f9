// SPDX-License-Identifier: Apache-2.0

package azure

import (
	"cmp"
	"fmt"
	"time"

	"github.com/karve-dev/karve/provider"
	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/network"
	"github.com/karve-dev/karve/provider/azure/internal/stock"
)

// Reasons why no node of a node class can be launched. They are reasons of an AKSNodeClass's
// ValidationSucceeded condition.
const (
	// ClassRefused: Azure refused several sizes with the same unknown code.
	ClassRefused = "MachinesRefused"
	// ClassDenied: karve lacks a permission that nodes of the class need.
	ClassDenied = "PermissionMissing"
	// ClassWithoutPool: the agent pool in which AKS is to create machines does not exist.
	ClassWithoutPool = "MachinePoolNotFound"
)

// poolMissingTTL is how long the node class then pauses: the pool may be added meanwhile.
const poolMissingTTL = time.Minute

// ClassTrouble says why no node of a node class is launched now, and what to do about it; the
// reason is empty when launches are allowed.
func (p *Provider) ClassTrouble(class string) (reason, detail string) {
	b, _ := p.stockouts.ClassBlock(class)
	return b.Reason, b.Words
}

// mayNotBuy returns why launches of the node class pause; nil when they do not.
func (p *Provider) mayNotBuy(class string) error {
	reason, detail := p.ClassTrouble(class)
	if reason == "" {
		return nil
	}
	return &provider.NotReadyError{Class: class, Reason: reason, Detail: detail}
}

// blame pauses the node class after a refusal that concerns it rather than an offering, and
// reports whether it did.
func (l *launch) blame(r armerr.Refusal) bool {
	switch {
	case r.Lacks != "" && l.p.stockouts.LaunchedLately(l.class.Name):
		return false // mostly a role assignment that is still propagating
	case r.Lacks != "":
		l.p.stockouts.PauseClass(l.class.Name, ClassDenied, r, network.DeniedTTL)
	case r.Kind == armerr.OtherRefusal:
		sizes, alike := l.p.stockouts.RefusedAlike(l.class.Name, r.Code)
		if !alike {
			return false
		}
		r.Advice = cmp.Or(r.Advice, fmt.Sprintf("VMs of %d sizes were refused for the same reason: correct what the AKSNodeClass asks for, or what the subscription allows", sizes))
		l.p.stockouts.PauseClass(l.class.Name, ClassRefused, r, stock.RefusedTTL)
	default:
		return false
	}
	return true
}

// PolicyDenial describes the last refusal by a policy of the subscription for a node class, and
// what to do about it; empty when there is none, or a node was launched since.
func (p *Provider) PolicyDenial(class string) string {
	return p.policies.Last(class, p.opts.Now())
}
