// SPDX-License-Identifier: Apache-2.0

// Package faults has karve's Azure provider launch many VMs and terminate them
// while an emulated Azure is at fault, in virtual time, and looks afterwards at what that
// Azure has: VMs, interfaces and disks left behind, two VMs of one claim, resources of
// other users that were changed, and claims that never ended.
//
// What drives the provider does what karve's controllers do with it, without an API of
// Kubernetes in between: claims are launched, remembered, asked about, given up and ended
// with the controllers' time-outs and back-off, and a collector compares both sides. The
// verdict is read off the emulator and the wire, never off the provider.
//
// Run must be called within a testing/synctest bubble: elsewhere it takes as long as
// Azure does. The zero Options work, and inject no fault at all.
package faults
