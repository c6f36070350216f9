// SPDX-License-Identifier: Apache-2.0

// Package lifecycle takes a NodeClaim from its creation to an initialized node: launched,
// registered, initialized, or deleted in time.
//
// It does not decide what to launch (the claim's requirements do), nor does it terminate
// instances (see controller/termination). Every step can be repeated: another reconciliation
// finishes what was interrupted, and one claim never gets two instances because the provider
// identifies it by UID. The zero Reconciler is not usable; all fields are required unless their
// comments say otherwise.
package lifecycle
