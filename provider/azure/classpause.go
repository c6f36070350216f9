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
	ClassRefused = "VMsRefused"
	// ClassDenied: karve lacks a permission that nodes of the class need.
	ClassDenied = "PermissionMissing"
	// ClassWithoutPool: the agent pool in which AKS is to create machines does not exist.
	ClassWithoutPool = "MachinePoolNotFound"
)

// poolMissingTTL is how long the node class then pauses: the pool may be added meanwhile.
const poolMissingTTL = time.Minute

// classPause says why no node of a node class is launched now, and what to do about it; the
// reason is empty when launches are allowed.
func (x *failures) classPause(class string) (reason, detail string) {
	b, _ := x.unavailable.ClassPause(class)
	return b.Reason, b.Description
}

// checkClassPause returns why launches of the node class pause; nil when they do not.
func (x *failures) checkClassPause(class string) error {
	reason, detail := x.classPause(class)
	if reason == "" {
		return nil
	}
	return &provider.NotReadyError{Class: class, Reason: reason, Detail: detail}
}

// pauseClass pauses the node class after a refusal that concerns it rather than an offering, and
// reports whether it did.
func (x *failures) pauseClass(class string, r armerr.Failure) bool {
	switch {
	case r.MissingAction != "" && x.unavailable.LaunchedRecently(class):
		return false // mostly a role assignment that is still propagating
	case r.MissingAction != "":
		x.unavailable.PauseClass(class, ClassDenied, r, network.DeniedTTL)
	case r.Kind == armerr.OtherFailure:
		sizes, pause := x.unavailable.SuspectClass(class, r.Code)
		if !pause {
			return false
		}
		r.Advice = cmp.Or(r.Advice, fmt.Sprintf("VMs of %d sizes were refused for the same reason: correct what the AKSNodeClass asks for, or what the subscription allows", sizes))
		x.unavailable.PauseClass(class, ClassRefused, r, stock.RefusedTTL)
	default:
		return false
	}
	return true
}

// policyDenial describes the last refusal by a policy of the subscription for a node class, and
// what to do about it; empty when there is none, or a node was launched since.
func (x *failures) policyDenial(class string) string { return x.policies.Last(class, x.now()) }
